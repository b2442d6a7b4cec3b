import { z } from 'zod';
import { type CurlContext, curlOf, login } from './curl.ts';
import { outline, type Schema, scalar } from './outline.ts';
import { STYLE } from './style.ts';

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

/** Lists the operations of an OpenAPI document as a page that stands alone. */
export function docsPage(openApi: unknown, curl: CurlContext): string {
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
<nav aria-label="Operations"><details><summary>Operations</summary>
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

/** What holds for every operation. */
function generalHtml({ access, baseUrl }: CurlContext): string {
  const how =
    access.kind === 'credentials'
      ? `Each request needs the dashboard’s credentials, as in <code>${escapeHtml(`curl ${login(access).join(' ')} ${baseUrl}/flows/api/flows`)}</code>.`
      : 'This dashboard has no credentials: whoever reaches it may use it.';
  return `
<p>${how} A browser may change something only from a page of this service.
<p>Lists take <code>skip</code> and <code>take</code>, and are bare arrays; with <code>includeTotal=true</code> they are
<code>{ items, total, skip, take }</code>. A search looks through the newest 10&nbsp;000 entries that the other filters
leave; an id, or eight and more characters of its beginning, is found however old it is.
<p>A refusal is <code>{ statusCode, error, message, reason? }</code>: the message names the field and what is accepted,
the reason is for machines.`;
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
${body === undefined ? '' : `<h4>Body, as JSON${requestBody?.required === true ? '' : '; may be left out'}</h4><pre>${escapeHtml(bodyOutline(body.schema ?? {}, context))}</pre>`}
<h4>Example</h4><pre class="shell">${escapeHtml(curl)}</pre>
${answersHtml(operation.responses, context)}
</section>`;
}

function bodyOutline(schema: Schema, { schemas }: PageContext): string {
  const written = outline(schema, schemas);
  return written === 'any JSON' ? (schema.description ?? written) : written;
}

function parametersHtml(parameters: Described['operation']['parameters']): string {
  // What stands in the path comes first, as it is written first.
  const inOrder = parameters.toSorted((a, b) => Number(b.in === 'path') - Number(a.in === 'path'));
  const rows = inOrder.map(({ name, in: place, schema, description, required }) => {
    const where = place === 'path' ? 'in the path' : place === 'header' ? 'header' : required ? 'required' : '';
    const accepted = schema.enum === undefined ? scalar(schema) : schema.enum.join(', ');
    return `<tr><td><code>${escapeHtml(name)}</code></td><td>${where}</td><td>${escapeHtml(accepted)}</td><td>${escapeHtml(description)}</td></tr>`;
  });
  return `<h4>Parameters</h4><table><thead><tr><th>Name</th><th></th><th>Accepts</th><th></th></tr></thead>${rows.join('')}</table>`;
}

/** What is answered when all is well in full, and the refusals by their codes: those have one shape. */
function answersHtml(responses: Described['operation']['responses'], { schemas }: PageContext): string {
  const good = Object.entries(responses).filter(([status]) => status.startsWith('2'));
  const bad = Object.entries(responses).filter(([status]) => !status.startsWith('2'));
  const answers = good.map(([status, { content = {} }]) => {
    const [type = '', media] = Object.entries(content)[0] ?? [];
    const isJson = type === 'application/json';
    const shape = isJson ? outline(listed(media?.schema ?? {}), schemas) : type;
    return `<details class="answer"><summary>Answer ${status}</summary><pre>${escapeHtml(shape)}</pre></details>`;
  });
  const refusals = bad.map(([status, { description }]) => `${status} ${description}`).join('; ');
  return `${answers.join('')}${refusals === '' ? '' : `<p class="refusals">Refusals: ${escapeHtml(refusals)}.`}`;
}

/** Of a list the bare array: what a page puts around it is said once, above. */
function listed(schema: Schema): Schema {
  const [bare, page] = schema.anyOf ?? [];
  return bare?.items !== undefined && page?.properties?.items !== undefined ? bare : schema;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
