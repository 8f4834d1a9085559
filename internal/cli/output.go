package cli

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Formats of -o.
const (
	formatWide = "wide"
	formatJSON = "json"
	formatYAML = "yaml"
	formatName = "name"
	// formatMarkdown is for comments on a forge.
	formatMarkdown = "markdown"
)

// outputFlag is -o.
type outputFlag struct {
	format  string
	formats []string
}

// add adds the flag with these formats.
func (o *outputFlag) add(cmd *cobra.Command, formats ...string) {
	o.formats = formats
	cmd.Flags().StringVarP(&o.format, "output", "o", "", "one of "+strings.Join(formats, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

func (o *outputFlag) check() error {
	if o.format == "" || slices.Contains(o.formats, o.format) {
		return nil
	}
	return invalid{fmt.Errorf("-o: %q is none of %s", o.format, strings.Join(o.formats, ", "))}
}

// objects says that objects are printed as the API has them, and not for people.
func (o *outputFlag) objects() bool { return o.format == formatJSON || o.format == formatYAML }

// printObject prints an object, or a list, as the API has it or by its name.
func (o *outputFlag) printObject(out io.Writer, object runtime.Object) error {
	var printer printers.ResourcePrinter
	switch o.format {
	case formatJSON:
		return printJSON(out, object)
	case formatYAML:
		printer = &printers.OmitManagedFieldsPrinter{Delegate: &printers.YAMLPrinter{}}
	default:
		printer = &printers.NamePrinter{}
	}
	return printer.PrintObj(object, out)
}

// printJSON prints JSON in which no character is left that could steer a terminal: JSON has another way to write it.
func printJSON(out io.Writer, object runtime.Object) error {
	var b bytes.Buffer
	printer := &printers.OmitManagedFieldsPrinter{Delegate: &printers.JSONPrinter{}}
	if err := printer.PrintObj(object, &b); err != nil {
		return err
	}
	_, err := io.WriteString(out, plainJSON(b.String()))
	return err
}

func plainJSON(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteString(escapeRune(r))
	}
	return b.String()
}

// escapeRune is a character in the notation of JSON, as one or two units of UTF-16.
func escapeRune(r rune) string {
	const surrogates = 0x10000
	if r < surrogates {
		return fmt.Sprintf(`\u%04x`, r)
	}
	r -= surrogates
	return fmt.Sprintf(`\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
}

// raw reads an object with all fields that the API has, known here or not.
func (h *hubClient) raw(object client.Object) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(h.kindOf(object))
	return u
}

func (h *hubClient) rawList(object client.Object) *unstructured.UnstructuredList {
	u := &unstructured.UnstructuredList{}
	kind := h.kindOf(object)
	kind.Kind += "List"
	u.SetGroupVersionKind(kind)
	return u
}

func (h *hubClient) kindOf(object client.Object) schema.GroupVersionKind {
	kinds, _, err := h.client.Scheme().ObjectKinds(object)
	if err != nil || len(kinds) == 0 {
		return v1alpha1.GroupVersion.WithKind("Unknown")
	}
	return kinds[0]
}

// typed has the kind of an object set, which the client leaves out.
func (h *hubClient) typed(object client.Object) client.Object {
	object.GetObjectKind().SetGroupVersionKind(h.kindOf(object))
	return object
}
