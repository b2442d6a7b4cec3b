import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { actorOf } from '../../dashboard/actors.ts';
import { field, isoTimeOrNull, unknownId } from '../../dashboard/answer.ts';
import { COMMAND, documentedBody, IN_ORDER, parameter, parseJsonBody, WHY } from '../../dashboard/input.ts';
import { route, textAnswer } from '../../dashboard/route.ts';
import {
  type ApiRoutes,
  causesOf,
  type DashboardServices,
  type ServicePart,
  servicePart,
} from '../../dashboard/services.ts';
import { flowsOfDelivery, limitOf, type Sight, sees, sightOf } from '../../dashboard/sight.ts';
import { HttpError } from '../../errors.ts';
import { HOUR_MS } from '../../model/clock.ts';
import { type DeliveryRecord, GATE_OUTCOMES } from '../../model/delivery.ts';
import { ENFORCEMENT_MODES, type SignedPayloadStrategy } from '../../model/manifest.ts';
import { oncePer } from '../../model/once-per.ts';
import { triggerMapKey } from '../../model/trigger-name.ts';
import { deliveryIn, deliverySchema, deliveryView, reasonSchema } from '../deliveries/service.ts';
import type { Readiness } from './readiness.ts';
import { type ConfiguredField, createReviewer, type DeliveryReview } from './review.ts';
import { createSealedPlans, planToken } from './sealed-plans.ts';
import { reviewStore } from './store.ts';

/** Queries about deliveries and actions on refused ones, with the configuration in force. */
export const reviewerOf = ({ receiver, extensions }: DashboardServices) =>
  createReviewer({ ...receiver, settings: extensions.gates.settings });

const modeSchema = z.enum(ENFORCEMENT_MODES);

const gateResultSchema = z.object({
  gate: z.string(),
  outcome: z.enum(GATE_OUTCOMES),
  reason: reasonSchema.nullable(),
  detail: field.content(z.string().nullable()),
  facts: z.record(z.string(), field.json()),
  configured: z.record(z.string(), field.declared()).nullable().describe('Fields of the deployed trigger.'),
});

const advice = {
  gateResults: z.array(gateResultSchema).describe('The result of each gate, in pipeline order.'),
  hints: z.array(z.string()).describe('Advice, from the stored bytes and the deployed trigger.'),
  signature: z
    .record(z.string(), field.json())
    .nullable()
    .describe(
      'What the deployed trigger signs and compares, with the first 8 hex digits of the SHA-256 of each key; keys under 16 bytes are not shown.',
    ),
};

const deliveryDetailSchema = deliverySchema

  .extend({
    ...advice,
    redeliveredFrom: field.id().nullable(),
    redeliveredAs: field.id().nullable(),
    redelivery: z
      .object({ possible: z.boolean(), message: field.content(z.string()) })
      .nullable()
      .describe(
        'Whether a redelivery can accept it, perhaps only with force; null if the delivery was neither refused nor filtered.',
      ),
    repeats: z
      .object({ runId: field.id(), deliveryId: field.id().nullable() })
      .nullable()
      .describe(
        'The first delivery with the same nonce; null if this is not a duplicate, or if that record was deleted.',
      ),
  })
  .meta({ id: 'DeliveryDetail' });

const dryRunSchema = z
  .object({
    flowId: field.id(),
    triggerKey: z.string(),
    mode: modeSchema,
    statusCode: field.integer().describe('The status code of the answer.'),
    reason: reasonSchema.nullable(),
    violations: z.array(reasonSchema),
    ...advice,
  })
  .meta({ id: 'DryRun' });

const redeliverySchema = z
  .object({
    redeliveredFrom: field.id(),
    outcome: z.enum(['accepted', 'would be accepted', 'accepted before', 'filtered', 'refused', 'not possible']),
    reason: reasonSchema.nullable(),
    message: field.content(z.string()),
    deliveryId: field.id().nullable(),
    runId: field.id().nullable(),
  })
  .meta({ id: 'Redelivery' });

const readinessSchema = z
  .object({
    flowId: field.id(),
    flowName: z.string(),
    triggerKey: z.string(),
    mode: modeSchema,
    watchedSince: field.time().nullable(),
    total: field.integer(),
    clean: field.integer(),
    refused: field.integer(),
    gates: z.array(
      z.object({
        gate: z.string(),
        isConfigured: z.boolean(),
        refused: field.integer(),
        reasons: z.array(z.object({ reason: reasonSchema, count: field.integer(), examples: z.array(field.id()) })),
      }),
    ),
    safeToEnforce: z.boolean(),
    reason: z.string(),
  })
  .meta({ id: 'Readiness' });

/** Answers of these operations. */
export interface DeliveryReviewAnswers {
  /** Names in `configured`. */
  readonly ConfiguredField: ConfiguredField;
  /** Names of `layout` in `signature`. */
  readonly Layout: SignedPayloadStrategy;
  readonly DeliveryDetail: z.output<typeof deliveryDetailSchema>;
  readonly DryRun: z.output<typeof dryRunSchema>;
  readonly Redelivery: z.output<typeof redeliverySchema>;
  readonly Readiness: z.output<typeof readinessSchema>;
}

const isoInstant = z.iso.datetime({ offset: true }).transform((text) => Date.parse(text));

const oneBody = COMMAND.extend({
  force: z.boolean().default(false).describe('Accepts the delivery even if gates fail; its record says so.'),
  body: z
    .string()
    .optional()
    .describe(
      'Sends this body instead of the one that came, also of a delivery that has a run. Its record is marked `edited`; the signature is not verified.',
    ),
  bodyEncoding: z.enum(['utf8', 'base64']).optional().describe('How `body` is written; `utf8` by default.'),
});

/** Besides the body, a command has a few fields, and JSON needs two characters for a quotation mark. */
const editedLimit = ({ settings }: DashboardServices) => 2 * settings.maxBodyBytes + 65_536;

function editedBody(request: FastifyRequest, { body, bodyEncoding }: z.output<typeof oneBody>) {
  if (body === undefined && bodyEncoding === undefined) return undefined;
  if (body === undefined)
    throw new HttpError('invalid_request', 'body.body: is missing; bodyEncoding says how it is written');
  const bytes = Buffer.from(body, bodyEncoding);
  if (bodyEncoding === 'base64' && bytes.toString('base64') !== body) {
    throw new HttpError('invalid_request', 'body.body: is not base64, although bodyEncoding says so');
  }
  return { bytes, isText: bodyEncoding !== 'base64', by: actorOf(request).name };
}

const manyBody = z
  .strictObject({
    flowId: z.guid().toLowerCase().optional(),
    reason: reasonSchema.optional(),
    since: isoInstant.optional(),
    until: isoInstant.optional(),
    filtered: z.boolean().optional().describe('Those that webhookWhen filtered, instead of refused ones.'),
    limit: z.int().min(1).max(500).default(100),
    plan: z.boolean().default(true),
    token: planToken,
  })
  .refine(...IN_ORDER);

/** Routes for single deliveries in full, dry runs and redelivery. */
const deliveryReviewRoutes: ApiRoutes = (app, services) => {
  const { store, clock } = services;
  const reviewer = reviewerOf(services);

  app.get(
    '/flows/api/webhooks/:deliveryId',
    route('deliveries', {
      operationId: 'getDelivery',
      limit: 'delivery',
      summary: 'One delivery with its body, the result of each gate, and advice',
      params: z.object({ deliveryId: parameter.guid() }),
      answer: deliveryDetailSchema,
      refusals: [404],
    }),
    async (request) => {
      const found = await findDelivery(request.params.deliveryId, services);
      const sight = sightOf(request, services);
      const record = deliveryIn(sight, found);
      const { reason, receivedAt: at } = record;
      const [review, causes, known, repeats, redelivery] = await Promise.all([
        reviewer.review(record),
        reason === null ? [] : causesOf({ ...record, reason, at }, services),
        store.of(reviewStore).findRedelivery(record.id),
        reviewer.findRepeated(record),
        seesAll(sight, found) ? planOf(record, services) : null,
      ]);
      const advice = { ...review, hints: [...causes, ...review.hints] };
      return deliveryDetailView(record, advice, { redeliveredAs: known?.deliveryId ?? null, repeats, redelivery });
    },
  );

  app.get(
    '/flows/api/webhooks/:deliveryId/body',
    route('deliveries', {
      operationId: 'getDeliveryBody',
      limit: 'delivery',
      summary: 'The whole body of a delivery, byte for byte',
      params: z.object({ deliveryId: parameter.guid() }),
      answer: textAnswer('application/octet-stream'),
      refusals: [404],
    }),
    async ({ params }, reply) => {
      const { body } = await findDelivery(params.deliveryId, services);
      if (body === null) throw new HttpError(404, `No body of the delivery ${params.deliveryId} is stored`);
      // Never sent as the type that its sender gave: a browser must not show it as a page.
      return reply.type('application/octet-stream').send(Buffer.from(body) as never);
    },
  );

  app.get(
    '/flows/api/webhooks/readiness',
    route('deliveries', {
      operationId: 'webhookReadiness',
      limit: 'filtered',
      summary: 'What Enforce would have refused, by trigger and gate',
      query: z.strictObject({
        flowId: parameter.optionalGuid(),
        hours: parameter.lookBackHours(),
      }),
      answer: z.array(readinessSchema),
    }),
    async (request) => {
      const { flowId, hours } = request.query;
      const sight = sightOf(request, services);
      const readiness = await reviewer.readiness({ since: clock.now() - hours * HOUR_MS, flowId });
      return readiness.filter((each) => sees(sight, each.flowId)).map(readinessView);
    },
  );

  dryRunRoute(app, services);
  addRedelivery(app, services);
};

const dryRunRoute: ApiRoutes = (app, services) => {
  const reviewer = reviewerOf(services);
  app.post(
    '/flows/api/webhooks/dry-run/:idOrSlug',
    route('deliveries', {
      operationId: 'dryRunDelivery',
      limit: 'webhook',
      access: { scope: 'read' },
      summary: 'Judges this request as a delivery, without creating a run or using a nonce',
      description:
        'If the dashboard has credentials, the Authorization header is the login and not part of the delivery.',
      params: z.object({ idOrSlug: z.string().min(1).max(256) }),
      body: documentedBody(z.unknown().describe('What the publisher would send: any bytes, of any content type.'), {
        order: 7,
      }),
      answer: dryRunSchema,
      refusals: [404],
      query: 'any',
    }),
    async (request) => {
      const { idOrSlug } = request.params;
      const delivery = reviewer.read(request, idOrSlug);
      const headers = withoutLogin(delivery.headers, services);
      const judged = await reviewer.dryRun({ ...delivery, headers }, idOrSlug);
      if (judged === undefined) throw new HttpError('unknown_flow', `No webhook has the address ${idOrSlug}`);
      const { flowId, triggerKey, mode, statusCode, reason, violations } = judged;
      return { flowId, triggerKey, mode, statusCode, reason, violations: [...violations], ...adviceView(judged) };
    },
  );
};

const addRedelivery: ApiRoutes = (app, services) => {
  const { store, clock } = services;
  const reviewer = reviewerOf(services);
  const plans = createSealedPlans(services);

  app.post(
    '/flows/api/webhooks/:deliveryId/redeliver',
    {
      ...route('deliveries', {
        operationId: 'redeliverDelivery',
        limit: 'delivery',
        summary: 'Judges a refused or filtered delivery again, as of the time it arrived, and accepts it if it passes',
        access: {
          detailsOf: async (request) => (parseJsonBody(request, oneBody).body === undefined ? {} : { edited: 'true' }),
        },
        params: z.object({ deliveryId: parameter.guid() }),
        command: [oneBody, { force: true, reason: 'the key was wrong' }],
        answer: redeliverySchema,
        refusals: [404],
      }),
      bodyLimit: editedLimit(services),
    },
    async (request) => {
      const command = parseJsonBody(request, oneBody);
      const edited = editedBody(request, command);
      const record = await findDelivery(request.params.deliveryId, services);
      if (!seesAll(sightOf(request, services), record)) {
        throw new HttpError('limited_to_flows', 'The delivery is of other flows too, which would get it again');
      }
      return reviewer.redeliver(record, { isForced: command.force, isPlan: false, edited });
    },
  );

  app.post(
    '/flows/api/webhooks/redeliver',
    route('deliveries', {
      operationId: 'redeliverDeliveries',
      limit: 'filtered',
      query: z.strictObject(WHY),
      access: { isPlan: (request) => parseJsonBody(request, manyBody).plan },
      summary: 'Plans or carries out the redelivery of many deliveries',
      description:
        'With `plan` true, the default, nothing changes. At most `limit` deliveries are taken: the newest that match, oldest first. The answer to a plan has a `token`: `{"plan": false, "token": …}` redelivers those that it found acceptable and no others, for who asked for it, within a day.',
      body: documentedBody(manyBody, { reason: 'signature_mismatch', since: '2026-03-01T12:00:00Z', plan: true }),
      answer: z.object({ plan: z.boolean(), items: z.array(redeliverySchema), token: z.string().nullable() }),
    }),
    async (request) => {
      const { limit, plan, token, ...filter } = parseJsonBody(request, manyBody);
      const asked = { request, action: 'redeliverDeliveries' };
      const at = clock.now();
      const found = async () => {
        const { filtered, ...rest } = filter;
        const which = filtered ? ({ outcome: 'filtered' } as const) : { refusedOnly: true };
        const whose = limitOf(request, services);
        const page = await store.listDeliveries({ ...rest, ...which, ...whose, skip: 0, take: limit });
        return page.items.toReversed().map(({ id }) => id);
      };
      const sight = sightOf(request, services);
      const isOfPlan = !plan && token !== undefined;
      const items = [];
      for (const id of isOfPlan ? (await plans.open(token, filter, asked)).ids : await found()) {
        // Loaded one by one, because a list has only the beginning of each body.
        const record = await store.findDelivery(id);
        if (record !== undefined && seesAll(sight, record))
          items.push(await reviewer.redeliver(record, { isForced: false, isPlan: plan }));
      }
      if (!plan) return { plan, items, token: null };
      const ids = items.flatMap(({ outcome, redeliveredFrom }) =>
        outcome === 'would be accepted' ? [redeliveredFrom] : [],
      );
      return { plan, items, token: await plans.seal({ filter, ids, at }, asked) };
    },
  );
};

async function findDelivery(deliveryId: string, { store }: DashboardServices) {
  const record = await store.findDelivery(deliveryId);
  if (record === undefined) throw unknownId('delivery', deliveryId);
  return record;
}

/** Whether the caller may see every flow that the delivery belongs to. */
const seesAll = (sight: Sight | undefined, record: DeliveryRecord) =>
  flowsOfDelivery(record).every((flowId) => sees(sight, flowId));

/** Counts as possible if force would work; whether to use force is for a person to decide. */
async function planOf(record: DeliveryRecord, services: DashboardServices) {
  const reviewer = reviewerOf(services);
  if (record.runId !== null || (record.statusCode < 400 && record.outcome !== 'filtered')) return null;
  const { outcome, message } = await reviewer.redeliver(record, { isForced: true, isPlan: true });
  return { possible: outcome === 'would be accepted', message };
}

/** The login of the dashboard is not part of the delivery. */
function withoutLogin(
  headers: Readonly<Record<string, string>>,
  { access }: DashboardServices,
): Record<string, string> {
  const kept = Object.entries(headers).filter(([name]) => name !== 'authorization' || access.kind !== 'credentials');
  return Object.fromEntries(kept);
}

function deliveryDetailView(
  record: DeliveryRecord,
  { gateResults, hints, signature }: DeliveryReview,
  relatives: Pick<z.output<typeof deliveryDetailSchema>, 'redeliveredAs' | 'repeats' | 'redelivery'>,
): z.output<typeof deliveryDetailSchema> {
  const redeliveredFrom = record.redeliveredFrom ?? null;
  return { ...deliveryView(record), ...adviceView({ gateResults, hints, signature }), redeliveredFrom, ...relatives };
}

export function adviceView({ gateResults, hints, signature }: DeliveryReview) {
  return {
    gateResults: gateResults.map(({ facts, configured, ...entry }) => ({
      ...entry,
      facts: { ...facts },
      configured: configured === null ? null : { ...configured },
    })),
    hints: [...hints],
    signature: signature === null ? null : { ...signature },
  };
}

function readinessView(readiness: Readiness): z.output<typeof readinessSchema> {
  return {
    ...readiness,
    watchedSince: isoTimeOrNull(readiness.watchedSince),
    gates: readiness.gates.map((gate) => ({
      ...gate,
      reasons: gate.reasons.map((entry) => ({ ...entry, examples: [...entry.examples] })),
    })),
  };
}

/** Number of a flow's newest deliveries that are searched for one of the trigger. */
const LOOKED_AT = 20;

interface LastMistake {
  readonly id: string;
  readonly hints: readonly string[];
}

/** Hints for the newest delivery of each trigger; searched again when a newer one has come. */
const lastMistakesOf = oncePer((_: DashboardServices) => new Map<string, LastMistake>());

/** A known mistake that would explain the newest refused delivery; a single delivery's review shows its own. */
async function mistakesIn(
  { id, flowId, triggerKey, reason }: Parameters<NonNullable<ServicePart['causes']>>[0],
  services: DashboardServices,
): Promise<readonly string[]> {
  if (id !== undefined || flowId === null || triggerKey === null || reason !== 'signature_mismatch') return [];
  const { items } = await services.store.listDeliveries({ flowId, reason, skip: 0, take: LOOKED_AT });
  const newest = items.find((each) => each.triggerKey === triggerKey);
  if (newest === undefined) return [];
  const known = lastMistakesOf(services);
  const name = triggerMapKey({ flowId, triggerKey });
  const last = known.get(name);
  if (last?.id === newest.id) return last.hints;
  const [mistake] = (await reviewerOf(services).review(newest)).hints;
  const hints = mistake === undefined ? [] : [`The newest of them: ${mistake}`];
  known.set(name, { id: newest.id, hints });
  return hints;
}

export const review = servicePart({ name: 'review', routes: [deliveryReviewRoutes], causes: mistakesIn });
