package dashboard

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/minifleet/minifleet/internal/view"
)

// projectedRows are rows of which only some fields are sent.
type projectedRows struct {
	rows   view.Rows
	fields []int // of view.Row; nil for all
}

// Schema implements huma.SchemaProvider.
func (projectedRows) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(typeOf[view.Rows](), true, "Rows")
}

// MarshalJSON implements json.Marshaler.
func (p projectedRows) MarshalJSON() ([]byte, error) {
	if p.fields == nil {
		return json.Marshal(p.rows)
	}
	items := make([]any, len(p.rows.Items))
	shape := projectedType(p.fields)
	for i := range p.rows.Items {
		from, to := reflect.ValueOf(&p.rows.Items[i]).Elem(), reflect.New(shape).Elem()
		for n, field := range p.fields {
			to.Field(n).Set(from.Field(field))
		}
		items[i] = to.Interface()
	}
	return json.Marshal(struct {
		Items  []any       `json:"items"`
		Total  int         `json:"total"`
		Facets view.Facets `json:"facets"`
		Cursor string      `json:"cursor"`
	}{items, p.rows.Total, p.rows.Facets, p.rows.Cursor})
}

// rowFields are the fields of a row, by the name that they are sent with.
var rowFields = sync.OnceValue(func() map[string]int {
	out := map[string]int{}
	t := typeOf[view.Row]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out[name] = i
	}
	return out
})

// projectedType is a row with only some of its fields.
func projectedType(fields []int) reflect.Type {
	t := typeOf[view.Row]()
	list := make([]reflect.StructField, len(fields))
	for i, f := range fields {
		list[i] = t.Field(f)
	}
	return reflect.StructOf(list)
}

// projection are the fields that are asked for, with those that identify a row; nil for all.
func projection(names []string) ([]int, error) {
	if len(names) == 0 {
		return nil, nil
	}
	var out []int
	for _, name := range append([]string{"namespace", "name"}, names...) {
		i, ok := rowFields()[name]
		if !ok {
			return nil, huma.Error422UnprocessableEntity("fields: a row has no " + name)
		}
		out = append(out, i)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
