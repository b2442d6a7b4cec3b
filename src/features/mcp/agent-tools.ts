import { z } from 'zod';
import { listPath } from '../../commands/service-client.ts';

export type Schema = Readonly<Record<string, unknown>>;

const schema = z.record(z.string(), z.unknown());
const contentSchema = z.record(z.string(), z.object({ schema: schema.optional() }));
const operationSchema = z.object({
  operationId: z.string(),
  summary: z.string(),
  description: z.string().optional(),
  parameters: z
    .array(
      z.object({
        name: z.string(),
        in: z.string(),
        required: z.boolean().optional(),
        description: z.string().optional(),
        schema,
      }),
    )
    .default([]),
  requestBody: z.object({ content: contentSchema }).optional(),
  responses: z.record(z.string(), z.object({ content: contentSchema.optional() })),
  security: z.array(z.record(z.string(), z.array(z.string()))).default([]),
});

/** The source of all tools: the parts read of a service's OpenAPI document. */
export const documentSchema = z.object({
  paths: z.record(z.string(), z.record(z.string(), operationSchema)),
  components: z.object({ schemas: z.record(z.string(), schema) }),
});

export type ServiceDocument = z.output<typeof documentSchema>;
type Operation = z.output<typeof operationSchema>;

/** A tool for an agent: an operation that reads, or one of the two halves of an operation that is planned first. */
export interface AgentTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Schema;
  readonly kind: 'read' | 'plan' | 'act';
  readonly operationId: string;
  /** The schema of its answer. */
  readonly answer: Schema;
  readonly isPaged: boolean;
  request(given: Arguments): ToolRequest;
}

export type Arguments = Readonly<Record<string, unknown>>;

interface ToolRequest {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly body?: string;
}

/** The agent passed arguments that the tool does not accept. */
export class ArgumentError extends Error {}

/**
 * An operation that reads becomes a tool if its answer is JSON. An operation that changes something only if it can be
 * planned first: one tool plans, another carries out a plan. Tools that need a missing scope are left out.
 */
export function agentTools({ paths }: ServiceDocument, scopes: readonly string[]): AgentTool[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, operation]) => {
      const needed = operation.security.flatMap((way) => Object.values(way).flat());
      const answer = operation.responses[200]?.content?.['application/json']?.schema;
      const may = needed.length > 0 && needed.every((scope) => scopes.includes(scope));
      if (!may || answer === undefined) return [];
      const offered = { path, operation, answer };
      if (method === 'get') return needed.includes('read') ? [readingTool(offered)] : [];
      return method === 'post' && needed.includes('operate') ? plannedTools(offered) : [];
    }),
  );
}

interface Offered {
  readonly path: string;
  readonly operation: Operation;
  readonly answer: Schema;
}

function readingTool({ path, operation, answer }: Offered): AgentTool {
  const { operationId, parameters } = operation;
  const given = parameters.filter(({ in: place }) => place === 'path' || place === 'query');
  const isPaged = given.some(({ name }) => name === 'skip');
  return {
    name: operationId,
    description: described(operation, isPaged ? 'A list: ask for the next part with `skip`.' : ''),
    inputSchema: {
      type: 'object',
      properties: shortened(
        Object.fromEntries(given.map(({ name, schema: its, description }) => [name, { description, ...its }])),
      ),
      required: given.flatMap(({ name, required }) => (required === true ? [name] : [])),
      additionalProperties: false,
    },
    kind: 'read',
    operationId,
    answer,
    isPaged,
    request: (args) => ({ method: 'GET', path: pathOf(path, given, args) }),
  };
}

type Parameters = Operation['parameters'];

function pathOf(path: string, parameters: Parameters, args: Arguments): string {
  const query: Record<string, string> = {};
  let filled = path;
  for (const { name, in: place } of parameters) {
    const value = args[name];
    if (value === undefined || value === null) continue;
    const text = String(value);
    if (place === 'query') query[name] = text;
    else filled = filled.replace(`{${name}}`, () => segmentOf(name, text));
  }
  return Object.keys(query).length === 0 ? filled : listPath(filled, query);
}

/** In a URL, `.` and `..` would lead to another operation. */
function segmentOf(name: string, text: string): string {
  if (text === '' || text === '.' || text === '..') throw new ArgumentError(`${name}: there is none with this name`);
  return encodeURIComponent(text);
}

const REASON = { type: 'string', minLength: 1, maxLength: 500, description: 'Why; kept in the activity.' };
const TOKEN = { type: 'string', minLength: 1, description: 'The `token` of the plan.' };

/** The body of an operation that is planned first takes `plan` and the `token` of a plan. */
function plannedTools({ path, operation, answer }: Offered): AgentTool[] {
  const { operationId, parameters, requestBody } = operation;
  const { properties = {} } = (requestBody?.content['application/json']?.schema ?? {}) as { properties?: Schema };
  const { plan, token, ...filter } = properties;
  if (plan === undefined || token === undefined) return [];
  // If a filter has a field of that name, the reason of the action is in the query.
  const isWhyInQuery = parameters.some(({ name }) => name === 'reason');
  const { reason: _, ...withoutWhy } = filter;
  const planName = `plan${operationId.charAt(0).toUpperCase()}${operationId.slice(1)}`;
  const shared = { operationId, answer, isPaged: false };
  const planTool: AgentTool = {
    ...shared,
    name: planName,
    description: `Says what \`${operationId}\` would do, and changes nothing. The answer has the \`token\` of the plan. Show the plan to the operator.`,
    inputSchema: {
      type: 'object',
      properties: shortened(isWhyInQuery ? filter : withoutWhy),
      additionalProperties: false,
    },
    kind: 'plan',
    request: (args) => ({ method: 'POST', path, body: JSON.stringify({ ...args, plan: true }) }),
  };
  const actTool: AgentTool = {
    ...shared,
    name: operationId,
    description: `Carries out a plan of \`${planName}\`, and nothing else. Only if the operator, who saw the plan, asked for it.`,
    inputSchema: {
      type: 'object',
      properties: { token: TOKEN, reason: REASON },
      required: ['token', 'reason'],
      additionalProperties: false,
    },
    kind: 'act',
    request: ({ token: carried, reason }) => ({
      method: 'POST',
      path: isWhyInQuery ? listPath(path, { reason: String(reason) }) : path,
      body: JSON.stringify({ plan: false, token: carried, ...(!isWhyInQuery && { reason }) }),
    }),
  };
  return [planTool, actTool];
}

/**
 * An agent reads all tools before it calls one, so a parameter keeps only the first sentence of its description. Times
 * may also be dates or milliseconds, so the service checks their format.
 */
function shortened(properties: Schema): Schema {
  return Object.fromEntries(
    Object.entries(properties).map(([name, its]) => {
      const { description, format, ...rest } = its as { description?: string; format?: string };
      const [first] = description?.split(/(?<=\.) /) ?? [];
      const checked = format === 'date-time' ? {} : { format };
      return [name, { ...rest, ...checked, ...(first !== undefined && { description: first }) }];
    }),
  );
}

function described({ summary, description = '' }: Operation, more: string): string {
  return [`${summary}.`, description, more].filter((part) => part !== '').join(' ');
}
