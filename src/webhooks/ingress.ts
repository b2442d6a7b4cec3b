import type { Socket } from 'node:net';
import type { Attributes, Span } from '@opentelemetry/api';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Delivery } from '../model/delivery.ts';
import { INERT_HEADERS } from '../model/inert-content.ts';
import { startReceiveSpan, tagAnswer } from '../telemetry/tracing.ts';
import { bodyStopped, DELIVERY_HEADER, malformedHost, methodNotAllowed, type WebhookAnswer } from './answers.ts';
import { withContent } from './content.ts';
import { addressGroup } from './networks/addresses.ts';
import {
  type BodyAllowance,
  BodyError,
  bodyBudget,
  type ClientAddressReader,
  type DeliveryReading,
  readBody,
  readHead,
  senderOf,
  toDelivery,
} from './read-delivery.ts';
import { type ReceiverServices, type RunAnswers, receiver } from './receive.ts';

interface IngressServices extends ReceiverServices, Omit<DeliveryReading, 'clock'> {
  readonly maxBodyBytes: number;
  /** Limit for all bodies in flight together, in bytes: a limit on each does not limit their sum. */
  readonly maxBodyBytesInFlight: number;
  /** Identifies senders for their share of memory; must not believe anything that a sender can write. */
  readonly senderAddress: Pick<ClientAddressReader, 'read'>;
  /** A stop ends the waits of senders. */
  readonly runAnswers: RunAnswers | undefined;
  /** The sockets of deliveries in flight, by id. */
  readonly senders: Map<string, Socket>;
  /** Whether a stop has begun; changes in place. */
  readonly phase: { readonly isStopping: boolean };
}

interface IdOrSlug {
  /** `*` is the rest of the path if that is not exactly one segment. */
  readonly Params: { readonly idOrSlug?: string; readonly '*'?: string };
}

/** Some publishers use GET and HEAD for handshakes; CloudEvents uses OPTIONS. */
const METHODS = ['POST', 'GET', 'HEAD', 'OPTIONS'];
const RECEIVE = '/flows/api/webhook';
const ROUTE = `${RECEIVE}/:idOrSlug`;
const MAX_PATH_CHARACTERS = 200;

/** The public surface: reads the capped raw body of a delivery, hands it to the receiver, writes the answer. */
export async function ingress(app: FastifyInstance, services: IngressServices): Promise<void> {
  const receiving = { services, receive: receiver(services), budget: bodyBudget(services.maxBodyBytesInFlight) };

  // A stopping server waits for every answer, so end the waits for runs.
  app.addHook('preClose', async () => services.runAnswers?.end());

  app.addHook('onRequest', (request, reply, done) => {
    // Publishers use no other method, not even for tests, so do not read the body.
    if (!METHODS.includes(request.method)) {
      write(reply, methodNotAllowed());
      return;
    }
    // Hide the body from Fastify. This route takes every body as bytes, whatever its content type, and reading it here
    // costs half as much as a content type parser. The delivery takes its headers from the raw ones.
    const { headers } = request.raw;
    headers['content-type'] = undefined;
    headers['content-length'] = undefined;
    headers['transfer-encoding'] = undefined;
    done();
  });

  // Claim all paths below the endpoint too: the dashboard would ask a publisher to log in.
  for (const url of [ROUTE, RECEIVE, `${RECEIVE}/*`]) {
    app.route<IdOrSlug>({
      method: app.supportedMethods,
      url,
      // Return nothing: given a promise, Fastify would also wait for the end of the response, with five more listeners.
      handler: (request, reply) => void answer(request, reply, receiving),
    });
  }
}

type IngressRequest = FastifyRequest<IdOrSlug>;

/** The slug or id in the address; a slash at its end makes no difference. */
function nameOf({ idOrSlug, '*': rest = '' }: IdOrSlug['Params']): string {
  return idOrSlug ?? rest.replace(/\/$/, '');
}

interface Receiving {
  readonly services: IngressServices;
  readonly receive: ReturnType<typeof receiver>;
  readonly budget: ReturnType<typeof bodyBudget>;
}

async function answer(request: IngressRequest, reply: FastifyReply, receiving: Receiving): Promise<void> {
  try {
    write(reply, await answerTo(request, reply, receiving));
  } catch (error) {
    reply.headers(INERT_HEADERS).send(error);
  }
}

async function answerTo(request: IngressRequest, reply: FastifyReply, receiving: Receiving): Promise<WebhookAnswer> {
  const { services, receive, budget } = receiving;
  const isLate = services.phase.isStopping;
  const head = readHead(request, services.clientAddress);
  if (!head.hasHost) return malformedHost();
  // The request asks whether deliveries may be sent here; nothing of it is kept.
  if (request.method === 'OPTIONS') {
    const answer = await receive.permission(head.headers, nameOf(request.params));
    if (answer !== undefined) return answer;
  }
  const judge = isLate ? receive.stopping : receive.delivery;
  if (request.method !== 'POST') return handOver(request, head, { receiving, judge });
  const allowance = budget.open(addressGroup(senderOf(request.raw, services.senderAddress)));
  try {
    const limits = { maxBytes: services.maxBodyBytes, allowance };
    request.body = await readBody(request.raw, head.headers['content-length'], limits);
    return await handOver(request, head, { receiving, judge, allowance });
  } catch (error) {
    if (!(error instanceof BodyError) || error.statusCode === 400) throw error;
    // The sender may still be sending bytes that will not be read.
    reply.header('connection', 'close');
    if (error.statusCode === 503) return receive.overloaded();
    if (error.statusCode === 413) return await handOver(request, head, { receiving, judge: receive.tooLarge });
    services.logger.info({ peer: head.peer }, 'a body stopped arriving and was cut');
    return bodyStopped();
  } finally {
    allowance.release();
  }
}

interface HandingOver {
  readonly receiving: Receiving;
  readonly judge: Receiving['receive']['delivery'];
  readonly allowance?: BodyAllowance;
}

async function handOver(
  request: IngressRequest,
  head: ReturnType<typeof readHead>,
  { receiving, judge, allowance }: HandingOver,
): Promise<WebhookAnswer> {
  const { services, receive } = receiving;
  const span = startReceiveSpan(request.headers);
  const idOrSlug = nameOf(request.params);
  // Check the clock before taking the time: only this check makes it follow a machine clock that was set.
  const byWhom = services.clock.isFit() ? judge : receive.unfit;
  const arrived = toDelivery(request, services, { head });
  const isEncoded = arrived.headers['content-encoding'] !== undefined;
  const delivery = isEncoded ? withContent(arrived, services, allowance) : arrived;
  services.senders.set(delivery.id, request.raw.socket);
  try {
    if (!span.isRecording()) return await byWhom(delivery, idOrSlug, span);
    span.setAttributes(requestAttributes(delivery, head));
    return await tagged(span, () => byWhom(delivery, idOrSlug, span));
  } finally {
    services.senders.delete(delivery.id);
  }
}

async function tagged(span: Span, judge: () => Promise<WebhookAnswer>): Promise<WebhookAnswer> {
  let statusCode = 500;
  try {
    const answer = await judge();
    statusCode = answer.statusCode;
    return answer;
  } finally {
    tagAnswer(span, statusCode, statusCode >= 500);
    span.end();
  }
}

/** Attributes of a request's span, by OpenTelemetry's names for HTTP. The query may hold a token and is left out. */
function requestAttributes(
  { method, path, clientIp }: Delivery,
  { peer, origin }: ReturnType<typeof readHead>,
): Attributes {
  // Impossible ports pass the Host check, so the URL may not parse.
  const { protocol, hostname, port } = URL.parse(origin) ?? { protocol: '', hostname: '', port: '' };
  const [own = ''] = path.split('?', 1);
  return {
    'http.request.method': method,
    'http.route': ROUTE.replace(':idOrSlug', '{idOrSlug}'),
    'url.scheme': protocol.slice(0, -1),
    'url.path': own.slice(0, MAX_PATH_CHARACTERS),
    'server.address': hostname.replace(/^\[(.*)\]$/, '$1'),
    'server.port': Number(port || (protocol === 'https:' ? 443 : 80)),
    'client.address': clientIp,
    'network.peer.address': peer,
  };
}

function write(reply: FastifyReply, answer: WebhookAnswer): void {
  reply.code(answer.statusCode).header('cache-control', 'no-store').type(answer.contentType);
  if (answer.deliveryId !== undefined) reply.header(DELIVERY_HEADER, answer.deliveryId);
  if (answer.headers !== undefined) reply.headers(answer.headers);
  // Set last, so that no header of the answer replaces them.
  reply.headers(INERT_HEADERS).send(answer.body);
}
