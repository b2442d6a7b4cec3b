import { createHash } from 'node:crypto';
import type { RouteOptions } from 'fastify';
import { z } from 'zod';
import { type ApiRoutes, baseUrlOf, type DashboardServices, servicePart } from '../../dashboard/services.ts';
import { type Sight, sees, sightOf } from '../../dashboard/sight.ts';
import { loadOnce } from '../../flows/load-once.ts';
import { escapeHtml } from '../../model/text.ts';
import { type PreparedTrigger, pathOfWebhook } from '../../webhooks/triggers.ts';
import { type CurlContext, curlOf, examplesOf, login } from './curl.ts';
import type { OpenApiDocument } from './openapi.ts';
import { outline, type Schema } from './outline.ts';

/** The OpenAPI document of this API, for machines and for people. */
const docsRoutes =
  (all: readonly RouteOptions[]): ApiRoutes =>
  (app, services) => {
    // Made at the first request for it.
    const openApi = loadOnce(async () => {
      const { describeRoutes } = await import('./openapi.ts');
      return describeRoutes(all, services.version);
    });
    const options = { schema: { hide: true }, config: { limit: 'filtered' } } as const;
    const named = async (sight: Sight | undefined) =>
      nameWebhooks(await openApi(), { baseUrl: baseUrlOf(app, services), sight, ...services });
    app.get('/flows/api/openapi.json', options, (request) => named(sightOf(request, services)));

    app.get('/flows/api/docs', options, async (request, reply) => {
      const sight = sightOf(request, services);
      const baseUrl = baseUrlOf(app, services);
      const page = docsPage(await named(sight), {
        baseUrl,
        access: services.access,
        examples: await examplesOf(services, sight),
      });
      // Allows the page's own style as well: neither scripts nor anything from elsewhere.
      const csp = `${reply.getHeader('content-security-policy')}; style-src 'sha256-${styleHash}'`;
      return reply.type('text/html; charset=utf-8').header('content-security-policy', csp).send(page);
    });
  };

/** More would make the document long; `GET /flows/api/flows` has all. */
const MAX_NAMED_WEBHOOKS = 100;

/**
 * Adds the deployed webhooks with their URLs: as examples of the receive endpoint's parameter, and as the requests of
 * publishers. They get no paths: a client generated from the document must not change with every deploy.
 */
function nameWebhooks(
  document: OpenApiDocument,
  {
    baseUrl,
    sight,
    triggers,
  }: Pick<DashboardServices, 'triggers'> & { readonly baseUrl: string; readonly sight: Sight | undefined },
): OpenApiDocument {
  const table = triggers();
  const webhooks = table.list().flatMap((webhook) => {
    const path = pathOfWebhook(webhook, table);
    const { inputs, flowId } = webhook.trigger;
    return path === null || !sees(sight, flowId)
      ? []
      : [{ webhook, value: inputs.webhookSlug ?? flowId, url: `${baseUrl}${path}` }];
  });
  const named = webhooks.slice(0, MAX_NAMED_WEBHOOKS);
  const examples = Object.fromEntries(
    named.map(({ webhook, value, url }) => [value, { value, summary: `${url} (${nameOf(webhook)})` }]),
  );
  const path = '/flows/api/webhook/{idOrSlug}';
  const item = document.paths?.[path];
  const operation = item?.post;
  if (operation === undefined || webhooks.length === 0) return document;
  const parameters = (operation.parameters ?? []).map((parameter) =>
    'name' in parameter && parameter.name === 'idOrSlug' ? { ...parameter, examples } : parameter,
  );
  return {
    ...document,
    paths: { ...document.paths, [path]: { ...item, post: { ...operation, parameters } } },
    webhooks: Object.fromEntries(named.map(({ webhook, value, url }) => [value, { post: whatIsSent(webhook, url) }])),
  };
}

function nameOf({ trigger, schemeName, mode }: PreparedTrigger): string {
  return [trigger.flowName, schemeName ?? 'no signature scheme', mode].join(', ');
}

/** A webhook in OpenAPI: the request that its publisher sends. */
function whatIsSent(webhook: PreparedTrigger, url: string) {
  const { bodySchema } = webhook.trigger;
  // A reference in it would be resolved against this document.
  const isWhole = bodySchema !== undefined && 'text' in bodySchema && !/"\$(ref|dynamicRef|id)"/.test(bodySchema.text);
  const schema = isWhole ? JSON.parse(bodySchema.text) : { description: 'What the publisher sends.' };
  return {
    tags: ['receive'],
    summary: nameOf(webhook),
    description: `The publisher sends it to ${url}. All answers are those of \`receiveDelivery\`.`,
    security: [],
    requestBody: { content: { [isWhole ? 'application/json' : '*/*']: { schema } } },
    responses: { 200: { description: 'Accepted, and its run is durable' } },
  };
}

const schemaSchema = z.custom<Schema>((value) => typeof value === 'object' && value !== null);

const contentSchema = z.record(
  z.string(),
  z.object({ schema: schemaSchema.optional(), example: z.unknown().optional() }),
);

const operationSchema = z.object({
  operationId: z.string(),
  summary: z.string().default(''),
  description: z.string().default(''),
  tags: z.array(z.string()).default([]),
  parameters: z
    .array(
      z.object({
        name: z.string(),
        in: z.string(),
        required: z.boolean().default(false),
        description: z.string().default(''),
        schema: schemaSchema,
        examples: z.record(z.string(), z.object({ summary: z.string() })).default({}),
      }),
    )
    .default([]),
  requestBody: z.object({ required: z.boolean().default(false), content: contentSchema }).optional(),
  responses: z.record(z.string(), z.object({ description: z.string().default(''), content: contentSchema.optional() })),
});

const documentSchema = z.object({
  info: z.object({ title: z.string(), version: z.string(), description: z.string() }),
  tags: z.array(z.object({ name: z.string(), description: z.string() })),
  paths: z.record(z.string(), z.record(z.string(), operationSchema)),
  components: z.object({ schemas: z.record(z.string(), schemaSchema).default({}) }),
});

interface Described {
  readonly path: string;
  readonly method: string;
  readonly operation: z.output<typeof operationSchema>;
}

interface PageContext extends CurlContext {
  readonly schemas: Readonly<Record<string, Schema>>;
}

/**
 * Lists the operations of an OpenAPI document on a self-contained page. Components for such documents (Swagger UI,
 * Redoc, Scalar) are one to three megabytes of scripts, and set styles that our content security policy forbids; this
 * page needs neither, and its commands can be pasted. Scrolling areas take the focus, for scrolling by keyboard.
 */
function docsPage(openApi: unknown, curl: CurlContext): string {
  const { info, tags, paths, components } = documentSchema.parse(openApi);
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );
  const context = { ...curl, schemas: components.schemas };
  const groups = tags.map(({ name, description }) => ({
    name,
    description,
    own: operations.filter(({ operation }) => operation.tags.includes(name)),
  }));
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escapeHtml(info.title)} API</title>
<style>${STYLE}</style>
<div class="layout">
<nav aria-label="Operations" tabindex="0"><details><summary>Operations</summary>
${groups.map(({ description, own }) => `<h2>${escapeHtml(description)}</h2><ul>${own.map(entryHtml).join('')}</ul>`).join('\n')}
</details></nav>
<main>
<h1>${escapeHtml(info.title)} API</h1>
<p>${escapeHtml(info.description)}
<p>Version ${escapeHtml(info.version)}. For machines: <a href="openapi.json">openapi.json</a>.
${generalHtml(curl)}
${groups.map(({ name, description, own }) => `<h2 id="${escapeHtml(name)}">${escapeHtml(description)}</h2>${own.map((one) => operationHtml(one, context)).join('')}`).join('\n')}
</main>
</div>
</html>
`;
}

function entryHtml({ path, method, operation }: Described): string {
  const label = escapeHtml(path.replace(/^\/flows\/api\//, ''));
  return `<li><a href="#${escapeHtml(operation.operationId)}"><span class="method ${method}">${method}</span><span>${label}</span></a></li>`;
}

/** Rules for every operation. */
function generalHtml({ access, baseUrl }: CurlContext): string {
  const how =
    access.kind === 'credentials'
      ? `Each request needs the dashboard’s credentials, as in <code>${escapeHtml(`curl ${login(access).join(' ')} ${baseUrl}/flows/api/flows`)}</code>.`
      : 'This dashboard has no credentials: everyone who reaches it may use it.';
  return `
<p>${how} From a browser only the pages of this service may change something.
<p>Lists take <code>skip</code> and <code>take</code>, and are bare arrays; with <code>includeTotal=true</code> they are
<code>{ items, total, skip, take }</code>. A search looks through the newest 10&nbsp;000 entries that the other filters
leave; an id, or eight and more characters of its beginning, is found however old it is.
<p>A refusal is <code>{ statusCode, error, message, reason? }</code>: the message names the field and what is accepted,
the reason is for programs.`;
}

function operationHtml({ path, method, operation }: Described, context: PageContext): string {
  const id = escapeHtml(operation.operationId);
  const { requestBody, parameters, summary, description } = operation;
  const body = requestBody?.content['application/json'];
  const curl = curlOf({ operationId: operation.operationId, method, path, body: body?.example }, context);
  return `
<section id="${id}">
<h3><a class="self" href="#${id}"><span class="method ${method}">${method}</span><span class="path">${escapeHtml(path)}</span></a></h3>
<p>${escapeHtml(summary)}.${description === '' ? '' : ` ${escapeHtml(description)}`}
${parameters.length === 0 ? '' : parametersHtml(parameters)}
${body === undefined ? '' : `<h4>Body, as JSON${requestBody?.required === true ? '' : '; optional'}</h4><pre tabindex="0">${escapeHtml(bodyOutline(body.schema ?? {}, context))}</pre>`}
<h4>Example</h4><pre class="shell">${escapeHtml(curl)}</pre>
${answersHtml(operation.responses, context)}
</section>`;
}

function bodyOutline(schema: Schema, { schemas }: PageContext): string {
  const written = outline(schema, schemas);
  return written === 'any JSON' ? (schema.description ?? written) : written;
}

function parametersHtml(parameters: Described['operation']['parameters']): string {
  // Parameters of the path first: the path comes first in a URL.
  const inOrder = parameters.toSorted((a, b) => Number(b.in === 'path') - Number(a.in === 'path'));
  const rows = inOrder.map(({ name, in: place, schema, description, required, examples }) => {
    const where = place === 'path' ? 'in the path' : place === 'header' ? 'header' : required ? 'required' : '';
    const accepted = schema.enum === undefined ? outline(schema, {}) : schema.enum.join(', ');
    return `<tr><td><code>${escapeHtml(name)}</code></td><td>${where}</td><td>${escapeHtml(accepted)}</td><td>${[description, ...Object.values(examples).map(({ summary }) => summary)].map(escapeHtml).join('<br>')}</td></tr>`;
  });
  return `<h4>Parameters</h4><table><thead><tr><th>Name</th><th></th><th>Accepts</th><th></th></tr></thead>${rows.join('')}</table>`;
}

/** Successful answers in full; refusals only by status, because all have the same shape. */
function answersHtml(responses: Described['operation']['responses'], { schemas }: PageContext): string {
  const good = Object.entries(responses).filter(([status]) => status.startsWith('2'));
  const bad = Object.entries(responses).filter(([status]) => !status.startsWith('2'));
  const answers = good.map(([status, { content = {} }]) => {
    const [type = '', media] = Object.entries(content)[0] ?? [];
    const isJson = type === 'application/json';
    const shape = isJson ? outline(listed(media?.schema ?? {}), schemas) : type;
    return `<details class="answer"><summary>Answer ${status}</summary><pre tabindex="0">${escapeHtml(shape)}</pre></details>`;
  });
  const refusals = bad.map(([status, { description }]) => `${status} ${description}`).join('; ');
  return `${answers.join('')}${refusals === '' ? '' : `<p class="refusals">Refusals: ${escapeHtml(refusals)}.`}`;
}

/** A list as the bare array: a page of results is described once, above. */
function listed(schema: Schema): Schema {
  const [bare, page] = schema.anyOf ?? [];
  return bare?.items !== undefined && page?.properties?.items !== undefined ? bare : schema;
}

const STYLE = `
  :root {
    color-scheme: light dark; font: 16px/1.55 system-ui, sans-serif;
    --text: #1c2024; --soft: #565f69; --page: #fff; --panel: #f4f6f8; --line: #d9dee3; --link: #0b5cad;
    --get: #0b5cad; --post: #1a6b34; --put: #8a4b00; --bad: #a11d2b;
  }
  @media (prefers-color-scheme: dark) {
    :root {
      --text: #e6e9ec; --soft: #a4adb6; --page: #14171a; --panel: #1e2226; --line: #343a40; --link: #7ab8ff;
      --get: #7ab8ff; --post: #79d292; --put: #f0b46a; --bad: #ff9aa4;
    }
  }
  * { box-sizing: border-box; }
  html { scroll-padding-top: 1rem; }
  body { margin: 0; color: var(--text); background: var(--page); }
  a { color: var(--link); }
  code, pre, .path, .method { font-family: ui-monospace, 'SF Mono', Menlo, Consolas, monospace; }
  .layout { display: grid; grid-template-columns: 21rem minmax(0, 1fr); max-width: 90rem; margin: 0 auto; }
  nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; padding: 1.25rem; border-right: 1px solid var(--line);
    font-size: 0.85rem; }
  nav h2 { font-size: 0.85rem; margin: 1.1rem 0 0.3rem; color: var(--soft); }
  nav ul { list-style: none; margin: 0; padding: 0; }
  nav li a { display: flex; gap: 0.5rem; padding: 0.2rem 0.3rem; color: var(--text); text-decoration: none;
    border-radius: 4px; }
  nav li a:hover, nav li a:focus-visible { background: var(--panel); }
  nav .method { min-width: 2.6rem; font-size: 0.75rem; line-height: 1.7; }
  nav summary { cursor: pointer; font-weight: 600; }
  main { padding: 1.5rem 2rem 6rem; max-width: 60rem; min-width: 0; }
  h1 { font-size: 1.7rem; margin: 0 0 0.5rem; }
  main > h2 { margin: 3rem 0 0; padding-bottom: 0.4rem; border-bottom: 2px solid var(--line); font-size: 1.3rem; }
  section { padding: 1.4rem 0; border-bottom: 1px solid var(--line); }
  section:target h3 { outline: 2px solid var(--link); outline-offset: 4px; border-radius: 2px; }
  h3 { font-size: 1.05rem; margin: 0; overflow-wrap: anywhere; }
  h3 a.self { text-decoration: none; color: inherit; }
  h3 a.self:hover .path { text-decoration: underline; }
  .path { font-size: 0.95rem; font-weight: 600; }
  .method { font-weight: 700; margin-right: 0.4rem; }
  .GET { color: var(--get); } .POST { color: var(--post); } .PUT { color: var(--put); } .DELETE { color: var(--bad); }
  h4 { font-size: 0.85rem; margin: 1rem 0 0.3rem; color: var(--soft); }
  p { margin: 0.4rem 0; }
  pre { margin: 0.3rem 0; padding: 0.7rem 0.9rem; background: var(--panel); border: 1px solid var(--line);
    border-radius: 6px; overflow-x: auto; font-size: 0.82rem; line-height: 1.5; white-space: pre; }
  pre.shell { white-space: pre-wrap; overflow-wrap: anywhere; }
  table { border-collapse: collapse; width: 100%; font-size: 0.88rem; }
  th { text-align: left; font-weight: 600; color: var(--soft); font-size: 0.8rem; }
  th, td { padding: 0.3rem 0.8rem 0.3rem 0; vertical-align: top; border-bottom: 1px solid var(--line);
    overflow-wrap: anywhere; }
  td:first-child { white-space: nowrap; }
  details.answer { margin: 0.25rem 0; font-size: 0.9rem; }
  details.answer summary { cursor: pointer; }
  .refusals { color: var(--soft); font-size: 0.88rem; }
  @media (max-width: 60rem) {
    .layout { display: block; }
    nav { position: static; height: auto; border-right: 0; border-bottom: 1px solid var(--line); padding: 0.8rem 1rem; }
    nav li a { padding: 0.4rem 0.3rem; overflow-wrap: anywhere; }
    main { padding: 1rem 1rem 4rem; }
    thead { display: none; }
    tr { display: block; padding: 0.4rem 0; border-bottom: 1px solid var(--line); }
    td { display: block; border: 0; padding: 0.05rem 0; }
    td:empty { display: none; }
    td:first-child { font-weight: 600; }
  }
  /* Next to the text the list is always open; above it, on a phone, it opens on a tap. */
  @media (min-width: 60.01rem) {
    nav details::details-content { content-visibility: visible; display: block; }
    @supports selector(::details-content) { nav summary { display: none; } }
  }
`;

const styleHash = createHash('sha256').update(STYLE).digest('base64');

export const apiDocs = servicePart({ name: 'api-docs', documentRoutes: docsRoutes });
