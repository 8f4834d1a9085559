# The page is the same on every platform.
FROM --platform=$BUILDPLATFORM node:20-slim AS web
WORKDIR /src/dashboard/web
COPY dashboard/web/package.json dashboard/web/package-lock.json dashboard/web/.npmrc ./
RUN npm ci
COPY dashboard/web ./
RUN npm run build

# Keep the version at or above that of go.mod.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
COPY --from=web /src/dashboard/web/dist dashboard/web/dist
ARG TARGETOS TARGETARCH VERSION
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath \
    -ldflags "-s -w -X github.com/minifleet/minifleet/internal/version.version=$VERSION" -o /minifleet .

# It holds CA certificates, which HTTPS to Git servers needs, and no shell.
FROM gcr.io/distroless/static:nonroot
COPY --from=build /minifleet /minifleet
COPY LICENSE /LICENSE
USER 65532:65532
ENTRYPOINT ["/minifleet"]
CMD ["controller"]
