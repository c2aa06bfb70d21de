# For operators: the command line, and what a Flower SuperLink runs for a valuation.
#
#     docker build --tag fedvalue --build-arg TORCH_INDEX=… .
#     docker run --rm --volume "$PWD:/data" fedvalue run --data-dir /data/hospitals --label outcome --out /data/out
#
# The process runs without privileges; what it writes belongs to user 10001, who must be allowed to write to /data.
ARG PYTHON=3.13
FROM python:${PYTHON}-slim AS build
WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
# An index with the CPU builds of torch makes an image without gigabytes of CUDA libraries.
ARG TORCH_INDEX=
RUN python -m venv /opt/fedvalue \
 && /opt/fedvalue/bin/pip install --no-cache-dir --disable-pip-version-check ${TORCH_INDEX:+--extra-index-url "${TORCH_INDEX}"} \
      -c constraints.txt ".[torch,flower,evidence,pandas,parquet,xgboost]"

FROM python:${PYTHON}-slim
COPY --from=build /opt/fedvalue /opt/fedvalue
RUN useradd --uid 10001 --create-home operator && install --directory --owner operator /data
ENV PATH=/opt/fedvalue/bin:$PATH PYTHONUNBUFFERED=1
USER operator
WORKDIR /data
VOLUME /data
ENTRYPOINT ["fedvalue"]
CMD ["--help"]
