"""Where jobs are kept: what a store must do, and the engines that do it."""
