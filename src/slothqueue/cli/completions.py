"""What each shell needs to ask us; the answers are those of `completing.py`."""

from __future__ import annotations

BASH = r"""# bash completion for sloth: put this into ~/.bashrc
_sloth() {
    local cur=${COMP_WORDS[COMP_CWORD]} line files=""
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            "!files") files=yes ;;
            "!command "*)
                if declare -F _command_offset >/dev/null; then
                    _command_offset "${line#* }"
                    return
                fi
                files=yes
                if [ "$COMP_CWORD" -eq "${line#* }" ]; then
                    COMPREPLY=($(compgen -c -- "$cur"))
                fi ;;
            *) COMPREPLY+=("$(printf '%q' "$line")") ;;
        esac
    done < <("$1" __complete bash "$COMP_CWORD" "${COMP_WORDS[@]}" 2>/dev/null)
    if [ -z "$files" ]; then
        compopt +o default +o bashdefault 2>/dev/null
    fi
}
complete -o bashdefault -o default -F _sloth sloth
"""

ZSH = r"""#compdef sloth
# zsh completion for sloth: put this into a directory of your $fpath, under the name _sloth
_sloth() {
    local -a lines found
    local line
    lines=("${(@f)$("${words[1]}" __complete zsh $((CURRENT - 1)) "${(@)words}" 2>/dev/null)}")
    for line in "${(@)lines}"; do
        case $line in
            '') ;;
            '!files') _files; return ;;
            '!command '*)
                shift ${line#* } words
                (( CURRENT -= ${line#* } ))
                _normal
                return ;;
            *) found+=("$line") ;;
        esac
    done
    (( ${#found} )) && _describe -V 'sloth' found
}
if [ "$funcstack[1]" = "_sloth" ]; then
    _sloth "$@"
else
    compdef _sloth sloth
fi
"""

FISH = r"""# fish completion for sloth: put this into ~/.config/fish/completions/sloth.fish
function __sloth_ask
    set -l words (commandline -opc) (commandline -ct)
    $words[1] __complete fish (math (count $words) - 1) $words 2>/dev/null
end
function __sloth_candidates
    __sloth_ask | string match --invert '!*'
end
function __sloth_wants_files
    __sloth_ask | string match --quiet '!*'
end
complete -c sloth -f
complete -c sloth -k -a '(__sloth_candidates)'
complete -c sloth -n __sloth_wants_files -F
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
