# One command of the demo: writes down that it begins, runs it with its output in a file, and writes
# down that it ended.  sh step.sh RECORD NAME OUTPUT COMMAND...
record=$1 name=$2 output=$3
shift 3
echo "begin $name $SLOTH_TOKEN $$ $PPID" >>"$record"
"$@" >"$output.$$" || exit
mv "$output.$$" "$output"
echo "end $name $SLOTH_TOKEN" >>"$record"
