// The API's description in Swagger UI 5.34.1, which is bundled in page/swagger (Apache 2.0).

/* global SwaggerUIBundle */
const key = new URLSearchParams(location.hash.slice(1)).get("key"); // a server with a key: /docs#key=...
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger",
  deepLinking: false,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  tryItOutEnabled: true,
  validatorUrl: null,
  requestInterceptor: (request) => {
    if (key) request.headers["x-api-key"] = key;
    return request;
  },
});
