// Package tap prints the Test Anything Protocol, version 13, to standard output.
//
// OCI's runtime-tools imports github.com/mndrix/tap-go, which Debian does not package. This one has
// the calls that validation/ and runtimetest make, and the lines that they print are the same.
package tap

import (
	"encoding/json"
	"fmt"
	"strings"
)

// T is one stream of numbered results.
type T struct {
	count *int
	todo  bool
}

// New starts a stream.
func New() *T { return &T{count: new(int)} }

// Todo returns the same stream for results of what may well not work yet.
func (t *T) Todo() *T { return &T{t.count, true} }

// Header prints the version, and the plan where the number of results is known beforehand.
func (t *T) Header(planned int) {
	fmt.Println("TAP version 13")
	if planned > 0 {
		plan(planned)
	}
}

// AutoPlan prints the plan after the last result.
func (t *T) AutoPlan() { plan(*t.count) }

// Ok prints one result.
func (t *T) Ok(passed bool, description string) {
	word := "ok"
	if !passed {
		word = "not ok"
	}
	*t.count++
	mark := "-"
	if t.todo {
		mark = "# TODO"
	}
	fmt.Printf("%s %d %s %s\n", word, *t.count, mark, description)
}

// Pass prints a result that is right.
func (t *T) Pass(description string) { t.Ok(true, description) }

// Fail prints a result that is wrong.
func (t *T) Fail(description string) { t.Ok(false, description) }

// Skip prints results that nobody has looked at.
func (t *T) Skip(number int, why string) {
	for range make([]struct{}, number) {
		*t.count++
		fmt.Printf("ok %d # SKIP %s\n", *t.count, why)
	}
}

// Diagnostic prints a comment; each of its lines begins with a sharp sign.
func (t *T) Diagnostic(text string) {
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		fmt.Println("#", line)
	}
}

// Diagnosticf prints a comment made as fmt.Printf makes it.
func (t *T) Diagnosticf(format string, values ...interface{}) {
	t.Diagnostic(fmt.Sprintf(format, values...))
}

// YAML prints details of the last result, between "---" and "..."; JSON is YAML.
func (t *T) YAML(details interface{}) error {
	text, err := json.MarshalIndent(details, "  ", "  ")
	if err != nil {
		return err
	}
	fmt.Printf("  ---\n  %s\n  ...\n", text)
	return nil
}

func plan(number int) { fmt.Printf("1..%d\n", number) }
