"""Templates: what the real docker prints for them, and in which words it refuses them.

The expected texts are docker's own, of `docker inspect --format` (docker 20.10).
"""

from __future__ import annotations

import os
import pty
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from minirun.faces.show.template import formats
from minirun.faces.show.template.execution import compile_template
from minirun.faces.show.template.values import Fields, NilList, NilMap, TemplateError

DATA = Fields(
    Id="e86f",
    Name="/web",
    State=Fields(Status="running", Pid=182, ExitCode=0).optionally(Health=None),
    HostConfig=Fields(
        CapAdd=NilList(), NanoCpus=0, RestartPolicy=Fields(Name="no", Count=0)
    ).optionally(Sysctls=NilMap(), Init=None, Tmpfs=NilMap({"/x": ""})),
    Config=Fields(
        Labels={"a": "1", "b": "2"}, Env=["A=1", "PATH=/x"], Cmd=["sh", "-c", "echo"], Empty=[]
    ),
    NetworkSettings=Fields(Ports={"80/tcp": [Fields(HostIp="0.0.0.0", HostPort="8080")]}),
    PidsLimit=None,
    Label=lambda name: {"a": "1"}.get(name, ""),
)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("plain }} text", "plain }} text"),
        ("{{.State.Status}}", "running"),
        ("{{.Config.Labels.nosuch}}", "<no value>"),
        ('{{index .Config.Labels "nosuch"}}|', "|"),
        ('{{index .Config.Labels "a"}}', "1"),
        ("{{.Config.Labels}} {{.Config.Env}}", "map[a:1 b:2] [A=1 PATH=/x]"),
        ("{{.PidsLimit}} {{.State.Health}}", "<nil> <nil>"),
        ("{{if .State.Health}}1{{else}}2{{end}} {{json .State.Health}}", "2 null"),
        ("{{.HostConfig.CapAdd}} {{.HostConfig.Sysctls}} {{len .HostConfig.CapAdd}}", "[] map[] 0"),
        ("{{json .HostConfig.CapAdd}} {{json .HostConfig.Sysctls}}", "null null"),
        ("{{.State}} {{.HostConfig.RestartPolicy}}", "{running 182 0 <nil>} {no 0}"),
        ("{{.ID}} {{.HostConfig.CapAdd}}", "e86f []"),
        ("{{.Id}} {{.HostConfig.CapAdd}}", "e86f <no value>"),
        ("{{.HostConfig.NanoCpus}} {{.HostConfig.RestartPolicy}}", "0 map[Count:0 Name:no]"),
        (
            '{{index .HostConfig "CapAdd"}} {{range $k, $v := .State}}{{$k}} {{end}}',
            "<no value> ExitCode Pid Status ",
        ),
        ('{{.Name}}\\n{{"a\\nb"}}', "/web\\na\nb"),
        ("{{range .Config.Env}}{{println .}}{{end}}", "A=1\nPATH=/x\n"),
        ("{{range $k, $v := .Config.Labels}}{{$k}}={{$v}};{{else}}none{{end}}", "a=1;b=2;"),
        ("{{range $i, $e := .Config.Env}}{{if $i}}, {{end}}{{$e}}{{end}}", "A=1, PATH=/x"),
        ("{{range .Config.Empty}}x{{else}}none{{end}}", "none"),
        ('{{(index (index .NetworkSettings.Ports "80/tcp") 0).HostPort}}', "8080"),
        (
            "{{range $p, $c := .NetworkSettings.Ports}}{{$p}} -> {{(index $c 0).HostPort}}{{end}}",
            "80/tcp -> 8080",
        ),
        ('{{join .Config.Cmd ","}} {{join .Config.Env "\\n"}}', "sh,-c,echo A=1\nPATH=/x"),
        ('{{upper .Name}} {{lower "AB"}} {{title "abc def"}}', "/WEB ab Abc Def"),
        ('{{truncate .Name 2}}|{{pad .Name 2 3}}|{{split "a,b" ","}}', "/w|  /web   |[a b]"),
        (
            '{{printf "%q %v %d %s" .Name .Config.Env .State.Pid .Name}}',
            '"/web" [A=1 PATH=/x] 182 /web',
        ),
        ('{{printf "%d" .Name}}', "%!d(string=/web)"),
        ('{{printf "%5d|%-5s|%05d|%.2s" 3 "a" 4 "abc"}}', "    3|a    |00004|ab"),
        ('{{.Name | printf "%.3s"}}|{{.Name | upper | lower}}', "/we|/web"),
        ("{{len .Config.Env}} {{len .Name}} {{len .Config.Labels}}", "2 4 2"),
        ('{{eq .State.Status "running"}} {{ne 1 2}} {{eq 1 2 1}}', "true true true"),
        ("{{lt 1 2}} {{le 2 2}} {{gt 1 2}} {{ge 1 2}} {{lt 1.5 2}}", "true true false false true"),
        ('{{and 1 0}} {{or 0 "x"}} {{not true}} {{and true .Name}}', "0 x false /web"),
        ("{{1.5}} {{1e3}} {{0x10}} {{true}} {{'a'}}", "1.5 1000 16 true 97"),
        ('{{if eq .Name "x"}}1{{else if .Config.Empty}}2{{else}}3{{end}}', "3"),
        ("{{if .Config.Empty}}1{{else if .Name}}2{{else}}3{{end}}", "2"),
        ("{{with .Config.Labels}}{{.a}}{{else}}no{{end}}", "1"),
        ("{{with .Config.Empty}}{{.}}{{else}}no {{.Id}}{{end}}", "no e86f"),
        ('a {{- " x " -}} b{{/* c */}} {{$x := .Name}}{{$x}}{{$.Id}}', "a x b /webe86f"),
        ("{{$x := 1}}{{if true}}{{$x = 2}}{{end}}{{$x}}", "2"),
        ("{{$s := .State}}{{$s.Status}}", "running"),
        ('{{"}}"}} {{`a\\n`}} {{"\\t\\x41\\u00e9"}}', "}} a\\n \tAé"),
        ("{{json .State}}", '{"Status":"running","Pid":182,"ExitCode":0}'),
        ("{{.Config.Env | json}}", '["A=1","PATH=/x"]'),
        ("{{json .PidsLimit}}", "null"),
        ('{{.Label "a"}}|{{.Label "nosuch"}}|', "1||"),
        ("{{println 1 .Name}}{{print 1 2 .Name 3}}", "1 /web\n1 2/web3"),
        ("{{slice .Name 1}} {{slice .Name 1 3}}", "web we"),
    ],
)
def test_what_docker_prints(form: str, text: str) -> None:
    assert formats.documents(form, [DATA]) == f"{text}\n"


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("{{", ":1: unclosed action"),
        ("a\n{{.State.Status", ":2: unclosed action"),
        ("{{nosuch}}", ':1: function "nosuch" not defined'),
        ("{{if}}a{{end}}", ":1: missing value for if"),
        ("{{}}", ":1: missing value for command"),
        ("{{.Id |}}", ":1: missing value for action"),
        ("{{end}}", ":1: unexpected {{end}}"),
        ("x{{else}}", ":1: unexpected {{else}}"),
        ("{{$y}}", ':1: undefined variable "$y"'),
        ("{{if true}}{{$y := 1}}{{end}}{{$y}}", ':1: undefined variable "$y"'),
        ("{{if .Name}}", ":1: unexpected EOF"),
        ('{{"abc}}', ":1: unterminated quoted string"),
        ("{{/* abc}}", ":1: unclosed comment"),
        ("{{(.Id}}", ":1: unclosed left paren"),
        ("{{.Id)}}", ":1: unexpected <)> in command"),
        ("{{.Id | 3}}", "can't give an argument to 3"),
        ("{{.a.}}", ":1: unexpected <.> in operand"),
        ("{{&}}", "unexpected bad character: '&'"),
        ("{{1a}}", "bad number syntax"),
        ('{{define "x"}}{{end}}', "define: this word of Go's templates is not supported"),
        ("{{(" * 1 + "(" * 80 + ")" * 81 + "}}", "more than 50 parentheses in each other"),
        ("{{if true}}" * 60 + "{{end}}" * 60, "more than 50 blocks in each other"),
    ],
)
def test_a_wrong_template_is_one_line_that_says_where(form: str, line: str) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_template(form)
    assert caught.value.line().startswith("template parsing error: template: :")
    assert line in caught.value.line()
    assert caught.value.status == 64


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("{{.State.Status}} {{.Nosuch}}", ':1:20: executing "" at <.Nosuch>: map has no entry for'),
        ("{{.State.Nosuch}}", ':1:8: executing "" at <.State.Nosuch>: map has no entry for key "N'),
        (
            "{{.State.Health.Status}}",
            'at <.State.Health.Status>: map has no entry for key "Health"',
        ),
        ("{{.Id}}{{.Config.Labels.nosuch}}", 'map has no entry for key "nosuch"'),
        ("{{index .Config.Env 99}}", "<index .Config.Env 99>: error calling index: index out of "),
        ('{{index .Name "a"}}', "cannot index slice/array with type string"),
        ("{{eq .State.Status 3}}", "error calling eq: incompatible types for comparison"),
        ("{{lt .Name 3}}", "error calling lt: incompatible types for comparison"),
        ("{{len 3}}", ':1:2: executing "" at <len 3>: error calling len: len of type int'),
        ("{{len}}", "wrong arguments for len"),
        ("{{.Name.Foo}}", ':1:7: executing "" at <.Name.Foo>: can\'t evaluate field Foo in type '),
        ("{{range .Name}}x{{end}}", ':1:8: executing "" at <.Name>: range can\'t iterate over '),
        ("{{.PidsLimit.x}}", "nil pointer evaluating interface {}.x"),
        ('{{join .Name ","}}', "expected a list of strings; found string"),
        ("{{pad .Name 9999999 0}}", "9999999 is more than 1048576"),
        ("{{.Name 3}}", "<.Name>: .Name is no method, but has arguments"),
    ],
)
def test_what_is_not_there_is_one_line_too(form: str, line: str) -> None:
    with pytest.raises(TemplateError) as caught:
        formats.documents(form, [DATA])
    assert line in caught.value.line()
    assert caught.value.status == 1


@contextmanager
def terminal() -> Iterator[None]:
    """Standard output is a terminal."""
    ours, theirs = pty.openpty()
    before = os.dup(1)
    os.dup2(theirs, 1)
    yield
    os.dup2(before, 1)
    for fd in (ours, theirs, before):
        os.close(fd)


@pytest.mark.parametrize(
    "form",
    [
        "{{.}}", "{{.x}}", "{{index . `x`}}", "{{range .}}{{.}}{{end}}", "{{json .}}",
        "{{range $k, $v := .}}{{$k}}{{$v}}{{end}}", "{{printf `%s %v %q %d` .x .x .x .x}}",
        "{{println .x}}", "{{upper .x}}", "{{split .x `a`}}", "{{pad .x 1 1}}", "{{title .x}}",
        "{{join .list `,`}}", "{{print .x 1}}", "{{truncate .x 3}}", "{{slice .x 0 3}}",
        "{{printf `%s` .list}}", "{{printf .x}}", "{{printf `%c` 155}}",
    ],
)  # fmt: skip
def test_no_text_of_a_container_reaches_the_terminal_as_it_is(form: str) -> None:
    hostile = "\x1b[2J\r\x9b1mA\u202e\udcff\n%s"
    with terminal():
        shown = compile_template(form).render({"x": hostile, "list": [hostile], hostile: hostile})
    assert shown.rstrip("\n").isprintable(), shown


def test_a_text_goes_into_a_pipe_as_it_is() -> None:
    assert not os.isatty(1)
    assert compile_template("{{.x}}|{{println .x}}").render({"x": "a\nb"}) == "a\nb|a\nb\n"


def test_lists_know_a_tab_and_a_new_line_outside_of_quotes() -> None:
    rows = [Fields(Names="web", Image="x")]
    heads = {"Names": "NAMES", "Image": "IMAGE"}
    assert formats.lines("{{.Names}}\\t{{.Image}}\\n", rows, heads) == "web\tx\n\n"
    assert formats.lines('{{join (split .Names "e") "\\n"}}', rows, heads) == "w\nb\n"
    assert formats.lines("a\\n{{- .Names}}", rows, heads) == "aweb\n"
    assert formats.lines("table {{json .Names}}", rows, heads).split() == ["NAMES", '"web"']
    assert formats.lines("table {{upper .Names}}", [], heads) == "NAMES\n"
    with pytest.raises(TemplateError, match="can't evaluate field Nosuch in type"):
        formats.lines("{{.Nosuch}}", rows, heads)
