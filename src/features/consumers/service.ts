import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { field, isoTime, outcomeSchema, unknownConsumer, unknownId } from '../../dashboard/answer.ts';
import { COMMAND, parameter, parseJsonBody } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import { type ApiRoutes, type DashboardServices, servicePart } from '../../dashboard/services.ts';
import { type HideFrom, type Sight, sees, sightOf } from '../../dashboard/sight.ts';
import { HttpError } from '../../errors.ts';
import { DAY_MS, HOUR_MS } from '../../model/clock.ts';
import { firstIdAt } from '../../model/delivery-ids.ts';
import { timeIn } from '../../model/ids.ts';
import { sameTrigger } from '../../model/trigger-name.ts';
import { shownHeaders } from '../../webhooks/headers.ts';
import { figuresStore } from '../figures/store.ts';
import { type Consumer, consumersStore, type ForwardedDelivery, type ForwardingPlace } from './store.ts';

export const consumerSchema = z
  .object({
    name: z.string(),
    flowId: field.id().nullable().describe('The flow whose deliveries it gets; null for all.'),
    triggerKey: z.string().nullable(),
    cursor: z.string().describe('How far it has come.'),
    at: field.time().describe('When the last delivery arrived that it has got, or where it began.'),
    createdAt: field.time(),
    usedAt: field.time(),
  })
  .meta({ id: 'Consumer' });

const forwardedSchema = z.object({
  cursor: z.string().describe('To advance to once the consumer has the delivery.'),
  deliveryId: field.id(),
  runId: field.id(),
  flowId: field.id(),
  flowName: z.string(),
  triggerKey: z.string(),
  receivedAt: field.time(),
  headers: field
    .content(z.record(z.string(), z.string()))
    .describe('Header values that may contain a credential are redacted.'),
  body: field.content(z.string()).describe('All of it, in base64.'),
});

const forwardingSchema = z.object({
  consumer: consumerSchema,
  deliveries: z.array(forwardedSchema),
  upTo: z.string().describe('The cursor behind these, and behind what the consumer does not get.'),
  gone: z
    .object({ since: field.time(), until: field.time(), atMost: field.integer() })
    .nullable()
    .describe('Deliveries that the consumer did not get in time: their runs were deleted. null if there are none.'),
});

const NAME = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$/;
const NAME_PARAMS = z.object({
  name: z.string().regex(NAME, 'expected up to 100 letters, digits, ".", "_", "@" and "-"'),
});

const OPEN = COMMAND.extend({
  since: z.iso.datetime({ offset: true }).optional().describe('Where a new consumer begins; now if absent.'),
  flowId: z.guid().toLowerCase().optional().describe('The flow whose deliveries it gets; all if absent.'),
  triggerKey: z.string().min(1).max(200).optional().describe('The trigger of that flow; all of it if absent.'),
});

/** More than any team has laptops. */
const MOST_CONSUMERS = 1000;
/** For one flow, or for all flows together: a credential limited to one flow cannot use up the room of others. */
const MOST_OF_FLOW = 250;
const IDLE_DAYS = 90;
const MAX_DELIVERIES = 100;
/** Bytes of bodies in one answer; a single larger body is sent too. */
const BYTES = 4 * 1024 * 1024;

/** Consumers that deliveries are forwarded to, each with a cursor that survives restarts of both sides. */
const consumerRoutes: ApiRoutes = (app, services) => {
  const { store, clock } = services;
  app.get(
    '/flows/api/webhooks/consumers',
    route('deliveries', {
      operationId: 'listConsumers',
      limit: 'filtered',
      summary: 'Who has deliveries forwarded, and how far each has come',
      answer: z.array(consumerSchema),
    }),
    async (request) => {
      const sight = sightOf(request, services);
      const consumers = await store.of(consumersStore).listConsumers();
      return consumers.filter(({ flowId }) => sees(sight, flowId)).map(consumerView);
    },
  );

  app.get(
    '/flows/api/webhooks/consumers/:name',
    route('deliveries', {
      operationId: 'getConsumer',
      limit: hideConsumer,
      summary: 'How far a consumer has come',
      params: NAME_PARAMS,
      answer: consumerSchema,
      refusals: [404],
    }),
    async ({ params: { name } }) => consumerView((await store.of(consumersStore).findConsumer(name)) ?? unknown(name)),
  );

  app.delete(
    '/flows/api/webhooks/consumers/:name',
    route('deliveries', {
      operationId: 'deleteConsumer',
      limit: hideConsumer,
      summary: 'Forgets a consumer and its cursor',
      params: NAME_PARAMS,
      answer: outcomeSchema,
      refusals: [404],
    }),
    async ({ params: { name } }) => {
      if (await store.of(consumersStore).forgetConsumer(name))
        return { success: true, message: 'The consumer is forgotten' };
      return unknown(name);
    },
  );

  app.put(
    '/flows/api/webhooks/consumers/:name',
    route('deliveries', {
      operationId: 'openConsumer',
      limit: 'filtered',
      summary: 'Makes a consumer, or goes on with the one of that name where it is',
      description: `At most ${MOST_CONSUMERS} are kept, ${MOST_OF_FLOW} of them for one flow, and as many for all flows; one that was not used for ${IDLE_DAYS} days is forgotten.`,
      params: NAME_PARAMS,
      command: [OPEN, { since: '2026-03-01T12:00:00Z' }],
      answer: consumerSchema,
      refusals: [404, 409],
    }),
    async (request) => {
      const { name } = request.params;
      const { since, flowId = null, triggerKey = null } = parseJsonBody(request, OPEN);
      await refuseOthers({ name, flowId }, sightOf(request, services), services);
      await refuseNobody({ name, flowId, triggerKey }, services);
      const at = clock.now();
      const idleBefore = at - IDLE_DAYS * DAY_MS;
      const wanted = { flowId, triggerKey };
      const opened = await store.of(consumersStore).openConsumer({
        name,
        ...wanted,
        since: since === undefined ? at : Date.parse(since),
        at,
        idleBefore,
        most: MOST_CONSUMERS,
        mostOfFlow: MOST_OF_FLOW,
      });
      if (opened === 'full' || opened === 'fullOfSubject') {
        services.metrics.roomRefused.inc({ room: 'consumers' });
        throw noRoom(opened, flowId);
      }
      const { consumer } = opened;
      if (sameTrigger(consumer, { flowId, triggerKey })) return consumerView(consumer);
      throw new HttpError(
        'consumer_differs',
        `The consumer ${name} gets the deliveries of ${subjectOf(consumer)}; use another name, or delete it first`,
      );
    },
  );

  forwardingRoutes(app, services);
};

/** Deliveries for a consumer, and its acknowledgements. */
const forwardingRoutes: ApiRoutes = (app, services) => {
  const { store, clock } = services;
  const cursorsFor = createCursors(services);
  app.get(
    '/flows/api/webhooks/consumers/:name/deliveries',
    route('deliveries', {
      operationId: 'readConsumer',
      limit: hideConsumer,
      summary: 'The next deliveries of a consumer, in the order in which they were committed, with their bodies',
      description:
        'Deliveries that started a run, or joined one: a held one comes once its run starts, and one that was refused, filtered or a duplicate never does. Bodies end after 4 MiB, but for a larger one. The answer stays the same until the consumer advances.',
      params: NAME_PARAMS,
      query: z.strictObject({ take: parameter.wholeNumber({ min: 1, max: MAX_DELIVERIES, fallback: 20 }) }),
      answer: forwardingSchema,
      refusals: [404],
    }),
    async (request) => {
      const { name } = request.params;
      const { take } = request.query;
      const found = await store.of(consumersStore).readForwarding({ name, limit: take, bytes: BYTES });
      if (found === undefined) return unknown(name);
      const { consumer, deliveries, upTo } = found;
      const { isLimited, cursorOf } = await cursorsFor(request);
      return {
        consumer: consumerView(consumer),
        deliveries: deliveries.map((delivery) => ({ ...forwardedView(delivery), cursor: cursorOf(delivery) })),
        upTo: cursorOf(isLimited ? withoutDelivery(upTo) : upTo),
        gone: await goneOf(consumer, services),
      };
    },
  );

  app.post(
    '/flows/api/webhooks/consumers/:name/advance',
    route('deliveries', {
      operationId: 'advanceConsumer',
      limit: hideConsumer,
      summary: 'Moves the cursor of a consumer behind a delivery that it has got; is not kept in the activity',
      params: NAME_PARAMS,
      query: z.strictObject({
        from: parameter.requiredText(80, 'the cursor of the consumer'),
        to: parameter.requiredText(80, 'the cursor of a delivery'),
      }),
      answer: consumerSchema,
      refusals: [404, 409],
      access: { isRoutine: true },
    }),
    async (request) => {
      parseJsonBody(request, COMMAND);
      const { name } = request.params;
      const { from, to } = request.query;
      const consumer = (await store.of(consumersStore).findConsumer(name)) ?? unknown(name);
      const { readCursor } = await cursorsFor(request);
      const advance = { name, from: readCursor('from', from).deliveryId, to: readCursor('to', to), at: clock.now() };
      const moved = await store.of(consumersStore).advanceConsumer(advance);
      if (moved === 'unknown') return unknown(name);
      if (moved === 'moved') {
        return consumerView({ ...consumer, deliveryId: advance.to.deliveryId, usedAt: advance.at });
      }
      throw new HttpError('cursor_moved', `The consumer ${name} is not at ${from} any more: another program moved it`);
    },
  );
};

const hideConsumer: HideFrom = async ({ name = '' }, sight, { store }) => {
  const consumer = await store.of(consumersStore).findConsumer(name);
  return consumer !== undefined && sight.has(consumer.flowId) ? undefined : unknownConsumer(name);
};

/** Actors limited to flows can have deliveries of one of these forwarded, under a name not in use for another flow. */
async function refuseOthers(
  { name, flowId }: { readonly name: string; readonly flowId: string | null },
  sight: Sight | undefined,
  { store }: DashboardServices,
): Promise<void> {
  if (sight === undefined) return;
  if (!sight.has(flowId)) {
    throw new HttpError('limited_to_flows', 'You are limited to some flows; name one of them as body.flowId');
  }
  const known = await store.of(consumersStore).findConsumer(name);
  if (known === undefined || sight.has(known.flowId)) return;
  throw new HttpError('consumer_differs', `The consumer ${name} gets other deliveries; use another name`);
}

/** A new consumer of a flow or trigger that never was would wait for ever. A known one may outlive its flow. */
async function refuseNobody(
  { name, flowId, triggerKey }: Pick<Consumer, 'name' | 'flowId' | 'triggerKey'>,
  { store, catalog }: DashboardServices,
): Promise<void> {
  if (flowId === null) {
    if (triggerKey === null) return;
    throw new HttpError('invalid_request', 'body.triggerKey: belongs to a flow; name the flow as body.flowId');
  }
  if ((await store.of(consumersStore).findConsumer(name)) !== undefined) return;
  const record = await store.findFlow(flowId);
  if (record === undefined) throw unknownId('flow', flowId);
  const deployed = catalog.find(flowId);
  // Another replica may have deployed a revision with this trigger.
  if (triggerKey === null || deployed?.record.revision !== record.revision) return;
  const keys = deployed.loaded.webhooks.map((webhook) => webhook.triggerKey);
  if (keys.includes(triggerKey)) return;
  const known = keys.length === 0 ? 'it has none' : `it has ${keys.join(', ')}`;
  throw new HttpError('unknown_trigger', `The flow has no webhook trigger ${JSON.stringify(triggerKey)}; ${known}`);
}

function unknown(name: string): never {
  throw unknownConsumer(name);
}

function noRoom(why: 'full' | 'fullOfSubject', flowId: string | null): HttpError {
  const there =
    why === 'full'
      ? `${MOST_CONSUMERS} consumers`
      : `${MOST_OF_FLOW} consumers of ${subjectOf({ flowId, triggerKey: null })}, which is all that it may have`;
  return new HttpError('too_many_consumers', `There are ${there}; delete one first`);
}

function subjectOf({ flowId, triggerKey }: Pick<Consumer, 'flowId' | 'triggerKey'>): string {
  if (flowId === null) return 'all flows';
  return triggerKey === null ? `the flow ${flowId}` : `the trigger ${triggerKey} of the flow ${flowId}`;
}

function consumerView({ deliveryId, createdAt, usedAt, ...consumer }: Consumer): z.output<typeof consumerSchema> {
  return {
    ...consumer,
    cursor: deliveryId,
    at: isoTime(timeIn(deliveryId)),
    createdAt: isoTime(createdAt),
    usedAt: isoTime(usedAt),
  };
}

function forwardedView({ headers, hasRecord, body, contentType, ...delivery }: ForwardedDelivery) {
  return {
    runId: delivery.runId,
    deliveryId: delivery.deliveryId,
    flowId: delivery.flowId,
    flowName: delivery.flowName,
    triggerKey: delivery.triggerKey,
    receivedAt: isoTime(timeIn(delivery.deliveryId)),
    headers: {
      ...(contentType === null ? {} : { 'content-type': contentType }),
      // The record was redacted when it was stored, perhaps by an earlier release that redacted less.
      ...shownHeaders(headers, hasRecord ? new Set(Object.keys(headers)) : undefined),
    },
    body: Buffer.from(body).toString('base64'),
  };
}

/** Writes places for the sender of a request, and reads them. */
interface Cursors {
  readonly isLimited: boolean;
  cursorOf(place: ForwardingPlace): string;
  readCursor(name: string, text: string): ForwardingPlace;
}

type Position = Pick<ForwardingPlace, 'position' | 'joined'>;

/** A position counts runs of all flows, so actors limited to some get it encrypted; the key stays in the database. */
function createCursors(services: DashboardServices): (request: FastifyRequest) => Promise<Cursors> {
  let key: Uint8Array | undefined;
  return async (request) => {
    if (sightOf(request, services) === undefined) return PLAIN;
    key ??= await services.store.keepSecret({ name: 'cursors', secret: randomBytes(32) });
    return { isLimited: true, ...cursorsWith(sealing(key), /^[0-9a-f]{32}$/) };
  };
}

const PLAIN: Cursors = {
  isLimited: false,
  ...cursorsWith(
    {
      write: ({ position, joined }) => `${position}.${joined}`,
      read: (text) => {
        const [position, joined] = text.split('.').map(Number);
        return { position: position ?? 0, joined: joined ?? 0 };
      },
    },
    /^-?\d{1,15}\.\d{1,15}$/,
  ),
};

interface PositionText {
  write(position: Position): string;
  read(text: string): Position;
}

/** Both numbers are in one block: any change gives another block, and neighbouring positions look unrelated. */
function sealing(key: Uint8Array): PositionText {
  return {
    write({ position, joined }) {
      const block = Buffer.alloc(16);
      block.writeBigInt64BE(BigInt(position), 0);
      block.writeBigInt64BE(BigInt(joined), 8);
      return createCipheriv('aes-256-ecb', key, null).setAutoPadding(false).update(block).toString('hex');
    },
    read(text) {
      const block = createDecipheriv('aes-256-ecb', key, null).setAutoPadding(false).update(Buffer.from(text, 'hex'));
      return { position: Number(block.readBigInt64BE(0)), joined: Number(block.readBigInt64BE(8)) };
    },
  };
}

function cursorsWith({ write, read }: PositionText, form: RegExp): Omit<Cursors, 'isLimited'> {
  return {
    cursorOf: (place) => `${write(place)}.${place.deliveryId}`,
    // A cursor, or only the id, which a consumer shows as its delivery.
    readCursor(name, text) {
      const [, given, deliveryId] = /^(?:(.+)\.)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/.exec(text) ?? [];
      const isForm = given === undefined || form.test(given);
      const position = isForm && given !== undefined ? read(given) : { position: 0, joined: 0 };
      if (deliveryId !== undefined && isForm && Object.values(position).every(Number.isSafeInteger))
        return { ...position, deliveryId };
      throw new HttpError('invalid_request', `${name}: ${JSON.stringify(text)} is not accepted; expected a cursor`);
    },
  };
}

/** The same place, with only the time of its delivery, which may belong to another flow. */
function withoutDelivery({ deliveryId, ...place }: ForwardingPlace): ForwardingPlace {
  return { ...place, deliveryId: firstIdAt(timeIn(deliveryId)) };
}

/** Deliveries after a consumer's cursor that are so old that their runs are deleted. */
async function goneOf({ deliveryId, flowId }: Consumer, { store, clock, kept }: DashboardServices) {
  const since = timeIn(deliveryId);
  const until = clock.now() - kept.runDays * DAY_MS;
  if (since >= until) return null;
  const span = { since, until, bucketMs: HOUR_MS, ...(flowId !== null && { flowId }) };
  const buckets = await store.of(figuresStore).deliveryTimeseries(span);
  const atMost = buckets.reduce((sum, { accepted }) => sum + accepted, 0);
  return atMost === 0 ? null : { since: isoTime(since), until: isoTime(until), atMost };
}

export const consumers = servicePart({ name: 'consumers', routes: [consumerRoutes] });
