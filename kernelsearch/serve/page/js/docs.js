// The API's description in Swagger UI, whose files are those of the package fastapi-offline.

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
