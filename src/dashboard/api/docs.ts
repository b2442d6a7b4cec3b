import { DOCS_CSP, docsPage } from '../docs-page.ts';
import type { ApiRoutes } from '../services.ts';

/** The OpenAPI document of this API, for machines and for people. */
export const docsRoutes: ApiRoutes = (app) => {
  app.get('/flows/api/openapi.json', { schema: { hide: true } }, async () => app.swagger());

  app.get('/flows/api/docs', { schema: { hide: true } }, async (_request, reply) => {
    const page = docsPage(app.swagger());
    return reply.type('text/html; charset=utf-8').header('content-security-policy', DOCS_CSP).send(page);
  });
};
