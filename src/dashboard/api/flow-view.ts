import { z } from 'zod';
import type { DeployedFlow } from '../../flows/catalog.ts';
import type { Holding } from '../../flows/holding.ts';
import type { PreparedTrigger, TriggerTable } from '../../webhooks/triggers.ts';
import { id, integer, isoTime, isoTimeOrNull, json, time } from './formats.ts';

const triggerSchema = z.object({
  key: z.string(),
  type: z.enum(['manual', 'cron', 'webhook']),
  slug: z.string().nullable().optional(),
  url: z.string().nullable().optional().describe('null where neither a slug nor the id of the flow leads to it.'),
  scheme: z.string().nullable().optional().describe('null where no signature is checked.'),
  mode: z.enum(['Off', 'Audit', 'Enforce']).optional().describe('The mode in force.'),
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
    triggers: z.array(triggerSchema).describe('In manifest order; slug, url, scheme and mode for webhooks alone.'),
  })
  .meta({ id: 'Flow' });

export const flowDetailSchema = flowSchema
  .extend({ manifest: json().describe('The deployed revision, secrets masked.') })
  .meta({ id: 'FlowDetail' });

/** What a view needs beside the flow: `baseUrl` is what publishers call. */
export interface FlowViewContext {
  readonly baseUrl: string;
  readonly triggers: TriggerTable;
  readonly holding: Pick<Holding, 'count'>;
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
  };
}

/** What the trigger that answers deliveries was prepared with, so that this shows what is done and not what was meant. */
function webhookView(flowId: string, triggerKey: string, { baseUrl, triggers }: FlowViewContext) {
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
    mode: prepared.mode,
  };
}
