import type { FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { z } from 'zod';
import { field, isoTime, listOf, toList } from '../../dashboard/answer.ts';
import { type Finding, nameOf, type Situation } from '../../dashboard/attention/finding.ts';
import { IN_ORDER, PAGING, parameter, SPAN } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import { type ApiRoutes, type DashboardServices, rulesFor, servicePart } from '../../dashboard/services.ts';
import { limitOf, type Sight, sightOf } from '../../dashboard/sight.ts';
import { HttpError } from '../../errors.ts';
import { maskUrl } from '../../manifest/mask.ts';
import { type Clock, DAY_MS, deletionGuard } from '../../model/clock.ts';
import {
  DELIVERY_OUTCOMES,
  DETAILS,
  type DeliveryRecord,
  isEdited,
  REASON_CODES,
  SHARE_OUTCOMES,
} from '../../model/delivery.ts';
import { ENFORCEMENT_MODES, RUN_STATUSES } from '../../model/manifest.ts';
import type { DeliveryFilter, Store } from '../../store/store.ts';
import { createSweeper, type Sweeper } from '../../sweeper.ts';
import { shownHeaders } from '../../webhooks/headers.ts';
import { deliveriesAttention } from './attention.ts';
import { disabledFlows, risingRefusals } from './refusals.ts';
import { deliveriesStore, type UnevaluatedCount } from './store.ts';

/** Most bytes of a body in an answer. */
const MAX_BODY_BYTES = 65_536;

export const reasonSchema = z.enum(REASON_CODES);

export const deliverySchema = z
  .object({
    id: field.id(),
    flowId: field.id().nullable(),
    triggerKey: z.string().nullable(),
    receivedAt: field.time(),
    clientIp: z.string(),
    mode: z.enum(ENFORCEMENT_MODES),
    scheme: z.string().nullable(),
    rejected: z.boolean().describe('A gate failed, or the delivery was refused.'),
    enforced: z.boolean().describe('The answer was a 4xx.'),
    statusCode: field.integer(),
    reason: reasonSchema.nullable(),
    violations: z.array(reasonSchema),
    detail: field.content(z.string().nullable()),
    bodyBytes: field.integer(),
    body: field.content(z.string().nullable()).describe('At most 64 KiB; null if none was read.'),
    bodyEncoding: z.enum(['utf8', 'base64']).nullable(),
    bodyTruncated: z.boolean(),
    headers: field
      .content(z.record(z.string(), z.string()))
      .describe('Header values that may contain a credential are redacted.'),
    processingMs: z.number(),
    runId: field.id().nullable(),
    runStatus: z
      .enum(RUN_STATUSES)
      .nullable()
      .describe('Of its run; null if it has none, or the run was deleted since.'),
    outcome: z
      .enum(DELIVERY_OUTCOMES)
      .nullable()
      .describe(
        '`duplicate`: it repeats what started the run. `filtered`: webhookWhen of its trigger was false, so it started none. `coalesced`: it joined the run of another delivery. `answered`: its trigger has `signals`, so it answered steps that wait, or is kept for some that will. `unevaluated`: an expression of its trigger failed; it started a run, or where its trigger has `signals`, answered nothing. `givenUp`: it never arrived, and could not be fetched from the log of its publisher; its status code is 0. null for all others.',
      ),
    runs: z
      .array(
        z.object({
          flowId: field.id(),
          triggerKey: z.string(),
          runId: field.id().nullable(),
          outcome: z
            .enum(SHARE_OUTCOMES)
            .nullable()
            .describe(
              '`closed`: its flow took no deliveries. `discarded`: its flow held it, and somebody discarded it.',
            ),
        }),
      )
      .optional()
      .describe(
        'Only of a delivery to a slug that several flows share: what became of it at each of their triggers, that of `flowId` first.',
      ),
    usedPreviousKey: z.boolean(),
    edited: z.boolean().describe('A person edited the body and sent it again: no signature was verified over it.'),
    held: z.boolean().describe('Accepted, but its run does not exist until the flow starts runs again.'),
    searchKeys: field
      .content(z.record(z.string(), z.string()))
      .describe('Its search keys, by name; empty if its trigger has none.'),
    requestUrl: field
      .content(z.string().nullable())
      .describe('The URL that the publisher called, with query values masked; null if the delivery passed every gate.'),
  })
  .meta({ id: 'Delivery' });

/** Filters for lists and counts of deliveries. */
export const DELIVERY_FILTER = {
  flowId: parameter.optionalGuid(),
  reason: parameter.oneOf(reasonSchema.options).meta({
    description: 'The first gate that failed, or why the delivery was refused.',
  }),
  rejectedOnly: parameter.flag().meta({ description: 'A gate failed, or the delivery was refused. false by default.' }),
  acceptedOnly: parameter.flag().meta({ description: 'All others. false by default.' }),
  heldOnly: parameter
    .flag()
    .meta({ description: 'Held until the flow starts runs; only the newest 10 000 of those. false by default.' }),
  outcome: parameter.oneOf(DELIVERY_OUTCOMES).meta({ description: 'Those with this `outcome`.' }),
  search: parameter.freeText(200).meta({
    description:
      'Part of an id, client address, trigger key, scheme, reason, detail or run id, in the newest 10 000 entries that match the other filters (`searchedUntil` says how far back those go); or, at any age, a search key or its beginning, `NAME:VALUE` for one whole search key (and the text itself), or at least the first 8 characters of an id. What has the text as its whole id or search key comes first.',
  }),
  searchKeys: parameter.searchKeys(),
  ...SPAN,
};

/** The filter for the store, limited to flows that the sender can see. Throws a 400 if two flags exclude everything. */
export function deliveryFilter<Filter extends DeliveryFilter>(
  filter: Filter,
  request: FastifyRequest,
  services: Pick<DashboardServices, 'catalog'>,
): Filter {
  if (filter.rejectedOnly === true && filter.acceptedOnly === true) {
    throw new HttpError('invalid_request', 'rejectedOnly, acceptedOnly: only one of the two can be true');
  }
  return { ...filter, ...limitOf(request, services) };
}

const recentQuery = z.strictObject({ ...DELIVERY_FILTER, ...PAGING }).refine(...IN_ORDER);

/** The delivery log. */
const deliveryRoutes: ApiRoutes = (app, services) => {
  app.get(
    '/flows/api/webhooks/recent',
    route('deliveries', {
      operationId: 'listDeliveries',
      limit: 'filtered',
      summary: 'Stored deliveries, newest first',
      query: recentQuery,
      answer: listOf(deliverySchema),
    }),
    async (request) => {
      const { query } = request;
      const sight = sightOf(request, services);
      const page = await services.store.listDeliveries(deliveryFilter(query, request, services));
      return toList(
        page.items.map((record) => deliveryView(deliveryIn(sight, record))),
        page,
        query,
      );
    },
  );
};

/**
 * A delivery as one reader sees it. A delivery of several flows looks as the first flow in the reader's sight got it:
 * nothing of the others, and no search key of another trigger.
 */
export function deliveryIn(sight: Sight | undefined, record: DeliveryRecord): DeliveryRecord {
  if (sight === undefined || record.shares === undefined) return record;
  const shares = record.shares.filter(({ flowId }) => sight.has(flowId));
  const [own] = shares;
  if (own === undefined || own.flowId === record.flowId) return { ...record, shares };
  const { flowId, triggerKey, runId, outcome } = own;
  const ofOwn = { flowId, triggerKey, runId, runStatus: undefined, searchKeys: undefined, shares };
  const detail = isEdited(record) ? DETAILS.edited : null;
  return {
    ...record,
    ...ofOwn,
    detail,
    outcome: outcome === 'closed' || outcome === 'discarded' || outcome === null ? undefined : outcome,
  };
}

export function deliveryView({ shares, ...record }: DeliveryRecord): z.output<typeof deliverySchema> {
  return {
    ...record,
    ...(shares !== undefined && { runs: [...shares] }),
    outcome: record.outcome ?? null,
    held: record.isHeld === true,
    edited: isEdited(record),
    runStatus: record.runStatus ?? null,
    searchKeys: record.searchKeys ?? {},
    requestUrl: record.requestUrl === undefined ? null : maskUrl(record.requestUrl),
    receivedAt: isoTime(record.receivedAt),
    violations: [...record.violations],
    // Redacted when it was stored, perhaps by an earlier release that redacted less.
    headers: shownHeaders(record.headers, new Set(Object.keys(record.headers))),
    ...bodyView(record.body, record.bodyBytes),
  };
}

/** Text if the bytes are UTF-8, else base64; a cut never splits a character. */
function bodyView(body: Uint8Array | null, bodyBytes: number) {
  if (body === null) return { body: null, bodyEncoding: null, bodyTruncated: false };
  const shown = body.subarray(0, MAX_BODY_BYTES);
  const bodyTruncated = shown.byteLength < bodyBytes;
  try {
    const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
    return { body: decoder.decode(shown, { stream: bodyTruncated }), bodyEncoding: 'utf8' as const, bodyTruncated };
  } catch {
    return { body: Buffer.from(shown).toString('base64'), bodyEncoding: 'base64' as const, bodyTruncated };
  }
}

function failedExpressions(
  unevaluated: readonly UnevaluatedCount[],
  { flows }: Situation,
): Finding<'expression_failed'>[] {
  return unevaluated.map(({ flowId, triggerKey, count }) => {
    const [deliveries, their] = count === 1 ? ['1 delivery', 'its run'] : [`${count} deliveries`, 'their runs'];
    const message =
      `An expression of the trigger ${nameOf(flowId, flows)}/${triggerKey} could not be evaluated for ${deliveries} ` +
      `in the last 24 hours: ${their} started all the same, and the records say why`;
    const link = `/flows/deliveries?flowId=${flowId}&outcome=unevaluated`;
    return { kind: 'expression_failed', message, link, triggerKey };
  });
}

interface LogRetentionServices {
  readonly store: Pick<Store, 'purgeDeliveries' | 'releaseSpace'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly retentionDays: number;
}

// A hundred rows, or this many pages of the file, take a few milliseconds.
const ROWS_A_CHUNK = 100;
const PAGES_A_CHUNK = 512;

/** Deletes old records of the delivery log; the store keeps the log's other limits itself. */
export function createLogRetention({ store, clock, logger, retentionDays }: LogRetentionServices): Sweeper {
  // Logs nothing: the sweep of runs and nonces uses the same clock and logs it.
  const mayDelete = deletionGuard(clock, () => {});
  return createSweeper({
    sweep: async (inChunks) => {
      const before = clock.now() - retentionDays * DAY_MS;
      if (mayDelete()) {
        await inChunks(async () => (await store.purgeDeliveries({ before, limit: ROWS_A_CHUNK })) === ROWS_A_CHUNK);
      }
      await inChunks(async () => (await store.releaseSpace({ pages: PAGES_A_CHUNK })) === PAGES_A_CHUNK);
    },
    failure: 'the delivery log could not be trimmed',
    logger,
    // Records that the last process left may be too old by now.
    sweepsAtStart: true,
  });
}

export const deliveries = servicePart({
  name: 'deliveries',
  routes: [deliveryRoutes],
  attention: rulesFor(deliveriesAttention, async (situation, services) => [
    ...(await risingRefusals(situation, services)),
    ...(await disabledFlows(situation, services.store)),
    ...failedExpressions(await services.store.of(deliveriesStore).countUnevaluated(situation.since), situation),
  ]),
  start: ({ settings, ...host }) => ({
    sweeper: createLogRetention({ ...host, retentionDays: settings.deliveryRetentionDays }),
  }),
});
