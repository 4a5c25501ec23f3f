# The service with Anserini's jar, without torch. Indexes are mounted; docs/production.md has the command:
# docker run -p 127.0.0.1:8080:8080 -v $PWD/indexes:/indexes -e KERNELSEARCH_API_KEY=... kernelsearch --index /indexes/mine
FROM python:3.12-slim AS build
# gcc and the C++ compiler are for packages without a wheel for this platform; their versions are those of the base image.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc g++ \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN python -m venv /opt/kernelsearch \
    && /opt/kernelsearch/bin/pip install --no-cache-dir -c constraints/default.txt '.[serve]' \
    && /opt/kernelsearch/bin/pip install --no-cache-dir -c constraints/default.txt --no-deps pyserini

FROM python:3.12-slim
RUN useradd --create-home --uid 10001 kernelsearch
COPY --from=build /opt/kernelsearch /opt/kernelsearch
ENV PATH=/opt/kernelsearch/bin:$PATH
USER 10001
WORKDIR /home/kernelsearch
EXPOSE 8080
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/health', timeout=5)"]
# A key is required (KERNELSEARCH_API_KEY), because the address can be reached from other machines.
ENTRYPOINT ["kernelsearch", "serve", "--host", "0.0.0.0"]
CMD ["--index", "/indexes/demo"]
