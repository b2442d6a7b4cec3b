import type { Span } from '@opentelemetry/api';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { startReceiveSpan } from '../telemetry/tracing.ts';
import type { Answer } from './answers.ts';
import { bodyBudget } from './body-budget.ts';
import { type Receiver, type ReceiverServices, receiver } from './receive.ts';
import { type DeliveryReading, toDelivery } from './to-delivery.ts';

export interface IngressServices extends ReceiverServices, DeliveryReading {
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

  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: services.maxBodyBytes }, (_request, body, done) =>
    done(null, body),
  );

  app.addHook('onRequest', (request, reply, done) => {
    // Fastify answers a malformed content type with 415 before any parser runs; to this route every body is bytes, and
    // the delivery reads the type that was sent from the raw headers.
    request.raw.headers['content-type'] = 'application/octet-stream';
    const release = budget.reserve(announcedBytes(request, services.maxBodyBytes));
    if (release === undefined) {
      write(reply, receive.overloaded());
      return;
    }
    reply.raw.once('close', release);
    done();
  });

  app.setErrorHandler<FastifyError>(async (error, request, reply) => {
    if (error.statusCode !== 413) throw error;
    const span = startReceiveSpan(request.headers);
    try {
      return write(reply, await receive.tooLarge(toDelivery(request, services), idOrSlugOf(request), span));
    } finally {
      endSpan(span, reply);
    }
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

function announcedBytes(request: FastifyRequest, maxBodyBytes: number): number {
  const announced = request.headers['content-length'];
  if (announced !== undefined) return Math.min(Number(announced) || 0, maxBodyBytes);
  return request.headers['transfer-encoding'] === undefined ? 0 : maxBodyBytes;
}

function idOrSlugOf(request: FastifyRequest): string {
  return (request as FastifyRequest<IdOrSlug>).params.idOrSlug;
}
