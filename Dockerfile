# One image for API, worker and commands. Build: docker build -t varve:0.1.0 .
FROM python:3.11-slim-bookworm AS build

WORKDIR /src
COPY requirements.lock ./
COPY deploy/requirements.lock ./deploy/
RUN python -m venv /opt/varve \
 && /opt/varve/bin/pip install --no-cache-dir --no-deps --require-hashes --only-binary :all: \
    -r deploy/requirements.lock \
 # the build backend, from the lock of the development tools
 && sed -n '/^setuptools==/,/^    #/p' requirements.lock > setuptools.lock \
 && pip install --no-cache-dir --no-deps --require-hashes -r setuptools.lock
COPY . .
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
 && /opt/varve/bin/pip install --no-cache-dir --no-deps --no-index /wheels/*.whl \
 && /opt/varve/bin/python -m compileall -q /opt/varve/lib

FROM python:3.11-slim-bookworm

RUN groupadd --gid 10001 varve \
 && useradd --uid 10001 --gid varve --no-create-home --shell /usr/sbin/nologin varve \
 && install -d -o varve -g varve /var/lib/varve/workspaces
COPY --from=build /opt/varve /opt/varve
ENV PATH=/opt/varve/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    VARVE_WORKSPACE_DIR=/var/lib/varve/workspaces
USER 10001:10001
WORKDIR /tmp
EXPOSE 8080
CMD ["python", "-m", "api"]
