# tinsmith in an image; BASE and TORCH_INDEX decide for which device.
#
#   docker build -t tinsmith .
#   docker build -t tinsmith:cuda --build-arg BASE=nvidia/cuda:TAG-runtime-ubuntu24.04 --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu130 .
#   mkdir -p out && chmod a+rwx out    # the image runs as a user of its own, and docker makes missing folders as root
#   docker run --rm -v $PWD/out:/runs/out tinsmith quickstart
#   docker run --rm --gpus all -v $PWD/out:/runs/out tinsmith:cuda run rlvr at=small device=cuda
ARG BASE=ubuntu:24.04

FROM ${BASE} AS build
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        g++ make cmake python3 python3-dev python3-venv && rm -rf /var/lib/apt/lists/*
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN python3 -m venv /opt/tinsmith && /opt/tinsmith/bin/pip install --no-cache-dir --index-url ${TORCH_INDEX} "torch>=2.11,<2.16"
COPY . /source
RUN /opt/tinsmith/bin/pip install --no-cache-dir /source && /opt/tinsmith/bin/tinsmith --version

FROM ${BASE}
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/* && useradd --create-home tinsmith && mkdir /runs && chown tinsmith /runs
COPY --from=build /opt/tinsmith /opt/tinsmith
ENV PATH=/opt/tinsmith/bin:$PATH TINSMITH_HOME=/home/tinsmith/home OMP_WAIT_POLICY=PASSIVE
USER tinsmith
WORKDIR /runs
ENTRYPOINT ["tinsmith"]
CMD ["--help"]
