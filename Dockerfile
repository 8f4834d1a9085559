# For those who have a container engine. `make image` makes an image of the same content without one.

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
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false \
    -ldflags "-s -w -X github.com/minifleet/minifleet/internal/version.version=$VERSION" -o /minifleet .

# The program holds CA certificates, which HTTPS to Git servers needs, and time zones.
FROM scratch
ARG VERSION REVISION CREATED
LABEL org.opencontainers.image.title="minifleet" \
      org.opencontainers.image.description="Runs Flux Framework MiniClusters on many Kubernetes clusters, from Git" \
      org.opencontainers.image.source="https://github.com/minifleet/minifleet" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.created="$CREATED"
COPY LICENSE /LICENSE
COPY --from=build /minifleet /minifleet
WORKDIR /
USER 65532:65532
ENTRYPOINT ["/minifleet"]
CMD ["controller"]
