# `llrnn serve` in a container; docs/server.md says how. `docker compose up` builds it and starts it.
# BASE may have a digest, python:3.11-slim@sha256:..., so that the image can be built again as it was. None stands here:
# .github/workflows/release.yml looks up the tag's at each release, builds with it, and notes it in the run's summary.
ARG BASE=python:3.11-slim
FROM ${BASE}
WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
COPY models/french models/french
# pip reads these where they are given. TORCH_INDEX=https://download.pytorch.org/whl/cpu (compose.yaml has it) is torch
# without CUDA, which is far smaller; unset, it is the build of the package index
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG TORCH_INDEX
RUN pip install --no-cache-dir ${TORCH_INDEX:+--extra-index-url $TORCH_INDEX} torch==2.13.0
RUN pip install --no-cache-dir --constraint constraints.txt '.[serve]' ./src/llrnn_agreement ./src/llrnn_morphology ./models/french
RUN useradd --create-home llrnn && install --directory --owner llrnn /models
USER llrnn
WORKDIR /models
EXPOSE 8017
HEALTHCHECK --start-period=10m CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8017/healthz')"]
# all addresses of the container: which of them others reach is said where its port is published
ENTRYPOINT ["llrnn", "serve", "--host", "0.0.0.0"]
# the French models; or model folders below /models: docker run ... llrnn /models/mine
CMD ["--demo", "--demo-folder", "/models/demo"]
