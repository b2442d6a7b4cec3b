import { z } from 'zod';
import type { Holding } from '../../deploys/holding.ts';
import type { DeployedFlow } from '../../flows/catalog.ts';
import type { RunCount } from '../../store/store.ts';
import { stateOf } from '../../webhooks/key-slot.ts';
import { CAPTURED, GRADES } from '../../webhooks/schemes/coverage.ts';
import type { PreparedTrigger, TriggerTable } from '../../webhooks/triggers.ts';
import { id, integer, isoTime, isoTimeOrNull, json, time } from './formats.ts';
import { sumOf } from './run-figures.ts';

const triggerSchema = z.object({
  key: z.string(),
  type: z.enum(['manual', 'cron', 'webhook']),
  slug: z.string().nullable().optional(),
  url: z.string().nullable().optional().describe('null where neither a slug nor the id of the flow leads to it.'),
  scheme: z.string().nullable().optional().describe('null where no signature is checked.'),
  grade: z
    .enum(GRADES)
    .nullable()
    .optional()
    .describe('What a captured delivery can be used for, by what is signed; null where only code knows.'),
  captured: z.string().nullable().optional().describe('The same in words.'),
  mode: z.enum(['Off', 'Audit', 'Enforce']).optional().describe('The mode in force.'),
  learnedKey: z
    .enum(['none', 'learned', 'unreadable'])
    .optional()
    .describe('Whether the publisher has handed its key over; for triggers that leave the key to be learnt.'),
  sendCommand: z
    .string()
    .nullable()
    .optional()
    .describe('Sends a signed sample delivery; null where the command cannot sign, or nothing leads to the webhook.'),
});

const runCountsSchema = z.object({
  running: integer().describe('In flight now.'),
  since: time().describe('The counts below are of runs that ended from then on: the last 24 hours and a part of one.'),
  succeeded: integer(),
  failed: integer().describe('Those that timed out are among them.'),
  cancelled: integer(),
  skipped: integer(),
});

export const flowSchema = z
  .object({
    id: id(),
    name: z.string(),
    version: z.string(),
    revision: integer(),
    isEnabled: z.boolean(),
    createdAt: time(),
    updatedAt: time(),
    drainingSince: time()
      .nullable()
      .describe('Since when it starts no runs so that it can be changed; null while it is not drained.'),
    held: integer().describe('Accepted deliveries whose runs start once it is enabled or resumed.'),
    triggers: z
      .array(triggerSchema)
      .describe('In manifest order; slug, url, scheme, grade, mode and sendCommand for webhooks alone.'),
    runs: runCountsSchema,
  })
  .meta({ id: 'Flow' });

export const flowDetailSchema = flowSchema
  .extend({ manifest: json().describe('The deployed revision, secrets masked.') })
  .meta({ id: 'FlowDetail' });

/** What a view needs beside the flow: `baseUrl` is what publishers call. */
export interface FlowViewContext {
  readonly baseUrl: string;
  readonly triggers: TriggerTable;
  /** Names of schemes that only the publisher's key can sign for: code that verifies. */
  readonly unsignable: ReadonlySet<string>;
  readonly runs: RunCounts;
  readonly holding: Pick<Holding, 'count'>;
}

/** Runs that are kept, and those that ended since. */
export interface RunCounts {
  readonly kept: readonly RunCount[];
  readonly ended: readonly RunCount[];
  readonly since: number;
}

export function flowView({ record, loaded }: DeployedFlow, context: FlowViewContext): z.output<typeof flowSchema> {
  return {
    id: record.id,
    name: record.name,
    version: record.version,
    revision: record.revision,
    isEnabled: record.isEnabled,
    createdAt: isoTime(record.createdAt),
    updatedAt: isoTime(record.updatedAt),
    drainingSince: isoTimeOrNull(record.drainingSince ?? null),
    held: context.holding.count(record.id),
    triggers: Object.entries(loaded.manifest.triggers).map(([key, { type }]) => ({
      key,
      type,
      ...(type === 'webhook' && webhookView(record.id, key, context)),
    })),
    runs: runCountsView(record.id, context.runs),
  };
}

function runCountsView(flowId: string, { kept, ended, since }: RunCounts): z.output<typeof runCountsSchema> {
  const own = (counts: readonly RunCount[]) => counts.filter((each) => each.flowId === flowId);
  return {
    running: sumOf(own(kept), 'Running'),
    since: isoTime(since),
    succeeded: sumOf(own(ended), 'Succeeded'),
    failed: sumOf(own(ended), 'Failed', 'TimedOut'),
    cancelled: sumOf(own(ended), 'Cancelled'),
    skipped: sumOf(own(ended), 'Skipped'),
  };
}

/** What the trigger that answers deliveries was prepared with, so that this shows what is done and not what was meant. */
function webhookView(flowId: string, triggerKey: string, { baseUrl, triggers, unsignable }: FlowViewContext) {
  const isThis = ({ trigger }: PreparedTrigger) => trigger.flowId === flowId && trigger.triggerKey === triggerKey;
  const prepared = triggers.list().find(isThis);
  if (prepared === undefined) return undefined;
  const byId = triggers.find(flowId);
  const slug = prepared.trigger.inputs.webhookSlug ?? null;
  const path = slug ?? (byId !== undefined && isThis(byId) ? flowId : null);
  return {
    slug,
    url: path === null ? null : `${baseUrl}/flows/api/webhook/${encodeURIComponent(path)}`,
    scheme: prepared.schemeName,
    grade: prepared.grade,
    captured: prepared.grade === null ? null : CAPTURED[prepared.grade],
    mode: prepared.mode,
    ...(prepared.keySlot?.isInUse === true && { learnedKey: stateOf(prepared.keySlot) }),
    sendCommand: path === null || unsignable.has(prepared.schemeName ?? '') ? null : sendCommand(path, baseUrl),
  };
}

/** In quotes where a shell would read more into it than a name. */
function sendCommand(path: string, baseUrl: string): string {
  const quoted = (word: string) => (/^[\w.:/@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
  return `npx sluice send ${quoted(path)} --to ${quoted(baseUrl)}`;
}
