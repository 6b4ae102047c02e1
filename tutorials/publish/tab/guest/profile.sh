# The terminal is xterm.js, in a page. It is told where a command begins (PS0) and ends, by the signs
# that terminals have for it (OSC 133, "semantic prompts"), so that the page can measure it.
export HOME=/root TERM=xterm-256color LANG=C.UTF-8 LESS=-R
PS0='\e]133;C\a'
PROMPT_COMMAND='printf "\e]133;D\a"'
cd
