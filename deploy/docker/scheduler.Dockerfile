# kube-scheduler with the plugin EvenkeelSpread; see docs/kube-scheduler.md.
#
#   docker build -f deploy/docker/scheduler.Dockerfile -t evenkeel-scheduler:0.1.0 .
#   docker build -f deploy/docker/scheduler.Dockerfile --build-arg MINOR=1.36 ...
#
# MINOR is that of the cluster: 1.37, or one of integrations/kube-scheduler/mods.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY clients/go clients/go
COPY integrations/kube-scheduler integrations/kube-scheduler
COPY deploy/docker/build-scheduler deploy/docker/build-scheduler
ARG MINOR=1.37
RUN --mount=type=cache,target=/go/pkg/mod \
    --mount=type=cache,target=/root/.cache/go-build \
    deploy/docker/build-scheduler /out/evenkeel-scheduler

FROM scratch
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="evenkeel-scheduler" \
      org.opencontainers.image.description="kube-scheduler that asks Evenkeel where pods are spread evenly" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION"
COPY --from=build /out/evenkeel-scheduler /evenkeel-scheduler
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["/evenkeel-scheduler"]
