import type { Span } from '@opentelemetry/api';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Delivery } from '../model/delivery.ts';
import { startReceiveSpan } from '../telemetry/tracing.ts';
import type { Answer } from './answers.ts';
import { bodyBudget } from './body-budget.ts';
import type { ClientAddressReader } from './client-address.ts';
import { type Receiver, type ReceiverServices, receiver } from './receive.ts';

export interface IngressServices extends ReceiverServices {
  readonly clientAddress: ClientAddressReader;
  readonly maxBodyBytes: number;
  /** All bodies in flight together, in bytes: what each may hold is no bound for what all hold. */
  readonly maxBodyBytesInFlight: number;
}

interface IdOrSlug {
  readonly Params: { readonly idOrSlug: string };
}

/** The public surface: reads the capped raw body of a delivery, hands it to the receiver, writes the answer. */
export async function ingress(app: FastifyInstance, services: IngressServices): Promise<void> {
  const receive = receiver(services);
  const budget = bodyBudget(services.maxBodyBytesInFlight);

  // Fastify answers a malformed content type with 415 before any parser runs; to this route every body is bytes, and
  // the delivery reads the type that was sent from the raw headers.
  app.addHook('onRequest', async (request) => {
    request.raw.headers['content-type'] = 'application/octet-stream';
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: services.maxBodyBytes }, (_request, body, done) =>
    done(null, body),
  );

  app.addHook('onRequest', async (request, reply) => {
    const release = budget.reserve(announcedBytes(request, services.maxBodyBytes));
    if (release === undefined) return write(reply, await receive.overloaded());
    reply.raw.once('close', release);
  });

  app.setErrorHandler<FastifyError>(async (error, request, reply) => {
    if (error.statusCode !== 413) throw error;
    const answer = await receive.tooLarge(
      toDelivery(request as FastifyRequest<IdOrSlug>, services),
      idOrSlugOf(request),
    );
    return write(reply, answer);
  });

  app.route<IdOrSlug>({
    method: ['POST', 'GET', 'HEAD'],
    url: '/flows/api/webhook/:idOrSlug',
    handler: (request, reply) => handle(request, reply, { receive, services }),
  });
}

async function handle(
  request: FastifyRequest<IdOrSlug>,
  reply: FastifyReply,
  { receive, services }: { receive: Receiver; services: IngressServices },
): Promise<FastifyReply> {
  const span = startReceiveSpan(request.headers);
  try {
    const delivery = toDelivery(request, services);
    return write(reply, await receive.delivery(delivery, request.params.idOrSlug, span));
  } finally {
    endSpan(span, reply);
  }
}

function endSpan(span: Span, reply: FastifyReply): void {
  span.setAttribute('http.response.status_code', reply.statusCode);
  span.end();
}

function write(reply: FastifyReply, answer: Answer): FastifyReply {
  return reply
    .code(answer.statusCode)
    .headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff', ...answer.headers })
    .type(answer.contentType)
    .send(answer.body);
}

function toDelivery(request: FastifyRequest<IdOrSlug>, services: IngressServices): Delivery {
  const headers = sentHeaders(request);
  const peer = request.socket.remoteAddress ?? '';
  const path = request.raw.url ?? '/';
  return {
    id: services.newId(),
    receivedAt: services.clock.now(),
    method: request.method,
    path,
    requestUrl: `${requestOrigin(request, headers, services.clientAddress.isTrustedPeer(peer))}${path}`,
    headers,
    body: Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0),
    clientIp: services.clientAddress.read(peer, headers['x-forwarded-for']),
  };
}

/** Headers as sent, before this plugin relabelled the content type; lines of one name are joined as HTTP says. */
function sentHeaders(request: FastifyRequest): Record<string, string> {
  const headers: Record<string, string> = Object.create(null);
  const raw = request.raw.rawHeaders;
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = String(raw[i]).toLowerCase();
    const value = String(raw[i + 1]);
    headers[name] = name in headers ? `${headers[name]}, ${value}` : value;
  }
  return headers;
}

/** What the publisher called, where a proxy of the operator's says so; else what this socket can tell. */
function requestOrigin(request: FastifyRequest, headers: Readonly<Record<string, string>>, isTrusted: boolean): string {
  const forwardedProtocol = isTrusted ? lastOf(headers['x-forwarded-proto']) : undefined;
  const forwardedHost = isTrusted ? lastOf(headers['x-forwarded-host']) : undefined;
  const protocol = forwardedProtocol === 'https' || forwardedProtocol === 'http' ? forwardedProtocol : request.protocol;
  return `${protocol}://${forwardedHost ?? headers.host ?? 'localhost'}`;
}

// The last value is the one that the nearest proxy wrote.
function lastOf(value: string | undefined): string | undefined {
  return value?.split(',').at(-1)?.trim();
}

function announcedBytes(request: FastifyRequest, maxBodyBytes: number): number {
  const announced = request.headers['content-length'];
  if (announced !== undefined) return Math.min(Number(announced) || 0, maxBodyBytes);
  return request.headers['transfer-encoding'] === undefined ? 0 : maxBodyBytes;
}

function idOrSlugOf(request: FastifyRequest): string {
  return (request as FastifyRequest<IdOrSlug>).params.idOrSlug;
}
