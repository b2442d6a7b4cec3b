import { createHash } from 'node:crypto';
import { z } from 'zod';
import { STRICT_CSP } from './security-headers.ts';

const STYLE = `
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
  body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
  h2 { border-bottom: 1px solid; margin-top: 2.5rem; }
  h3 { font: 1rem ui-monospace, monospace; margin: 1.5rem 0 0; overflow-wrap: anywhere; }
  h3 b { display: inline-block; min-width: 3.5rem; }
  p { margin: 0.25rem 0; }
  table { border-collapse: collapse; font-size: 0.9rem; }
  td { padding: 0.1rem 1.5rem 0.1rem 0; vertical-align: top; }
`;

const styleHash = createHash('sha256').update(STYLE).digest('base64');

/** The page's own style and nothing else: neither scripts nor anything from elsewhere. */
export const DOCS_CSP = `${STRICT_CSP}; style-src 'sha256-${styleHash}'`;

const operationSchema = z.object({
  summary: z.string().default(''),
  tags: z.array(z.string()).default([]),
  parameters: z
    .array(
      z.object({
        name: z.string(),
        in: z.string(),
        description: z.string().default(''),
        schema: z.object({
          type: z.string().default('any'),
          format: z.string().optional(),
          enum: z.array(z.unknown()).optional(),
          minimum: z.number().optional(),
          maximum: z.number().optional(),
        }),
      }),
    )
    .default([]),
  requestBody: z.unknown().optional(),
  responses: z.record(z.string(), z.unknown()),
});

const documentSchema = z.object({
  info: z.object({ title: z.string(), version: z.string(), description: z.string() }),
  tags: z.array(z.object({ name: z.string(), description: z.string() })),
  paths: z.record(z.string(), z.record(z.string(), operationSchema)),
});

type Operation = z.output<typeof operationSchema>;
type Parameter = Operation['parameters'][number];

/** Lists the operations of an OpenAPI document as a page that stands alone. */
export function docsPage(openApi: unknown): string {
  const { info, tags, paths } = documentSchema.parse(openApi);
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );
  const sections = tags.map(({ name, description }) => {
    const own = operations.filter(({ operation }) => operation.tags.includes(name));
    return `<h2>${escapeHtml(description)}</h2>${own.map(operationHtml).join('')}`;
  });
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escapeHtml(info.title)} API</title>
<style>${STYLE}</style>
<h1>${escapeHtml(info.title)} API</h1>
<p>${escapeHtml(info.description)}
<p>Version ${escapeHtml(info.version)}. For machines: <a href="openapi.json">openapi.json</a>.
${sections.join('\n')}
</html>
`;
}

function operationHtml({ path, method, operation }: { path: string; method: string; operation: Operation }): string {
  const rows = operation.parameters.map(parameterHtml).join('');
  return `
<h3><b>${escapeHtml(method)}</b> ${escapeHtml(path)}</h3>
<p>${escapeHtml(operation.summary)}
${rows === '' ? '' : `<table>${rows}</table>`}
<p>${operation.requestBody === undefined ? '' : 'Takes a JSON body. '}Answers ${escapeHtml(Object.keys(operation.responses).join(', '))}.`;
}

function parameterHtml({ name, in: place, schema, description }: Parameter): string {
  const cells = [name, place, accepted(schema), description];
  return `<tr>${cells.map((cell) => `<td>${escapeHtml(cell)}</td>`).join('')}</tr>`;
}

function accepted({ type, format, minimum, maximum, enum: names }: Parameter['schema']): string {
  if (names !== undefined) return names.join(', ');
  if (minimum === undefined || maximum === undefined) return format ?? type;
  return `${type} from ${minimum} to ${maximum}`;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
