package dashboard

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// config describes the API.
func config(version string) huma.Config {
	c := huma.DefaultConfig("MiniFleet", version)
	c.Info.Description = "The fleet at a glance: MiniClusters, their runs, members and sources; and what a person may ask for. " +
		"What a person may not see looks as if it were not there."
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "/api/v1/openapi", "", ""
	c.CreateHooks, c.Transformers = nil, nil
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", Description: "A token that the hub's API server knows."},
		"cookie": {Type: "apiKey", In: "cookie", Name: "__Host-minifleet", Description: "Of a browser that has logged in."},
	}
	return c
}

// newAPI registers all operations.
func newAPI(mux *http.ServeMux, version string, s *Server) huma.API {
	huma.DefaultArrayNullable = false
	api := humago.New(mux, config(version))
	api.UseMiddleware(measured(s.o.Now))
	s.registerReads(api)
	s.registerLive(api)
	s.registerForecast(api)
	s.registerWrites(api)
	return api
}

// OpenAPI is the description of the API, as JSON.
func OpenAPI() ([]byte, error) {
	api := newAPI(http.NewServeMux(), "v1", &Server{})
	return api.OpenAPI().MarshalJSON()
}
