import { Command } from 'commander';
import { CommandError, positive, reporting, withService, writeOutput } from '../../commands/context.ts';
import type { CommandPart } from '../../commands/part.ts';
import {
  askList,
  clientOf,
  findWebhooks,
  type ServiceClient,
  type ServiceOptions,
} from '../../commands/service-client.ts';
import { declaredBy, parseBody } from '../../expressions/trigger-body.ts';
import type { Json, JsonObject } from '../../model/json.ts';
import { print, printError } from '../../telemetry/terminal.ts';

interface InferOptions extends ServiceOptions {
  readonly count: number;
  readonly output?: string;
}

/** `sluice schema infer`. */
function inferCommand(): Command {
  const command = new Command('infer')
    .description('Propose a webhookBodySchema from the stored accepted deliveries of a webhook')
    .argument('<slugOrId>', 'slug of a trigger, or GUID of a flow')
    .option('--count <number>', 'read at most this many of the newest deliveries', positive, 100)
    .configureHelp({ showGlobalOptions: true });
  return withService(command)
    .addHelpText(
      'after',
      '\nThe schema lists the fields, their types, and which were always present. Review it before you use it: a rare field ' +
        'may be missing, and a field that was always present so far may be optional.',
    )
    .action(reporting(infer));
}

async function infer(slugOrId: string, _: unknown, command: Command): Promise<void> {
  // `--output` is an option of `schema` too, which parses it first.
  const { count, output, ...options } = command.optsWithGlobals<InferOptions>();
  const client = await clientOf(options);
  const webhooks = await findWebhooks(client, slugOrId);
  const [webhook] = webhooks;
  if (webhook === undefined || webhooks.length > 1) {
    throw new CommandError(
      `The flow has several webhooks; name one by its slug: ${webhooks.map(({ name }) => name).join(', ')}`,
    );
  }
  const { bodies, unread } = await storedBodies(client, webhook, count);
  if (bodies.length === 0) throw new CommandError(`No stored accepted delivery of "${slugOrId}" can be read`);
  const text = `${JSON.stringify(schemaOf(bodies), null, 2)}\n`;
  if (output === undefined) print(text);
  else await writeOutput(output, text);
  const left = unread === 0 ? '' : `; ${unread} could not be parsed`;
  printError(`from ${bodies.length} deliveries${left}\n`);
}

interface ListedDelivery {
  readonly id: string;
  readonly triggerKey: string | null;
  readonly runId: string | null;
  readonly headers: Readonly<Record<string, string>>;
}

const PAGE = 500;

async function storedBodies(
  client: ServiceClient,
  { flowId, key }: { readonly flowId: string; readonly key: string },
  count: number,
): Promise<{ readonly bodies: readonly Json[]; readonly unread: number }> {
  const bodies: Json[] = [];
  let unread = 0;
  for (let skip = 0; bodies.length < count; skip += PAGE) {
    const path = `/flows/api/webhooks/recent?acceptedOnly=true&flowId=${flowId}&skip=${skip}&take=${PAGE}`;
    const page = (await askList(client, path, { id: '', headers: {} })) as readonly ListedDelivery[];
    // A delivery without a run was a handshake.
    for (const { id, headers } of page.filter(({ triggerKey, runId }) => triggerKey === key && runId !== null)) {
      if (bodies.length === count) break;
      const body = await (await client.open(`/flows/api/webhooks/${id}/body`)).arrayBuffer();
      const parsed = parseBody(
        new Uint8Array(body),
        declaredBy({ contentType: headers['content-type'] ?? null, headers }),
        'doubles',
      );
      if ('error' in parsed) unread += 1;
      else bodies.push(parsed.value);
    }
    if (page.length < PAGE) break;
  }
  return { bodies, unread };
}

/** An object with more names than this is a map: its names are data. */
const MAX_NAMES = 100;

/** A JSON Schema that accepts all values; of objects it lists the fields, and requires those that all of them had. */
export function schemaOf(values: readonly Json[]): JsonObject {
  return { $schema: 'https://json-schema.org/draft/2020-12/schema', ...shapeOf(values) };
}

function shapeOf(values: readonly Json[]): JsonObject {
  const types = new Set(values.map(typeOf));
  if (types.has('number')) types.delete('integer');
  const sorted = [...types].toSorted();
  const type = sorted.length === 1 ? (sorted[0] ?? 'null') : sorted;
  return { type, ...ofObjects(values.filter(isObject)), ...ofArrays(values.filter(isArray)) };
}

function ofObjects(objects: readonly JsonObject[]): JsonObject {
  if (objects.length === 0) return {};
  const names = [...new Set(objects.flatMap((object) => Object.keys(object)))];
  if (names.length > MAX_NAMES) return {};
  const having = (name: string) => objects.filter((object) => Object.hasOwn(object, name));
  const properties = names.map((name) => [name, shapeOf(having(name).map((object) => object[name] ?? null))]);
  const required = names.filter((name) => having(name).length === objects.length);
  return { properties: Object.fromEntries(properties), ...(required.length === 0 ? {} : { required }) };
}

function ofArrays(arrays: readonly (readonly Json[])[]): JsonObject {
  const items = arrays.flat();
  return items.length === 0 ? {} : { items: shapeOf(items) };
}

function typeOf(value: Json): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  return typeof value;
}

function isObject(value: Json): value is JsonObject {
  return typeOf(value) === 'object';
}

function isArray(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}

export const inferSchemaCommand: CommandPart = {
  name: 'infer-schema',
  additions: { schema: (schema) => schema.addCommand(inferCommand()) },
};
