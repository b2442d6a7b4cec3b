import type { IncomingMessage } from 'node:http';
import type { Span } from '@opentelemetry/api';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { startReceiveSpan, type TraceparentUse } from '../telemetry/tracing.ts';
import { addressGroup } from './networks/addresses.ts';
import { bodyStopped, malformedHost, methodNotAllowed, type WebhookAnswer } from './outcome.ts';
import {
  type BodyAllowance,
  BodyError,
  bodyBudget,
  type ClientAddressReader,
  type DeliveryReading,
  hasHost,
  readBody,
  senderOf,
  toDelivery,
} from './read-delivery.ts';
import { type ReceiverServices, receiver } from './receive.ts';

interface IngressServices extends ReceiverServices, DeliveryReading {
  readonly maxBodyBytes: number;
  readonly traceparent: TraceparentUse;
  /** All bodies in flight together, in bytes: a bound on each does not bound them all. */
  readonly maxBodyBytesInFlight: number;
  /** Tells senders apart where they share memory; must not believe anything that a sender can write. */
  readonly senderAddress: Pick<ClientAddressReader, 'read'>;
  /** From the moment a stop begins nothing new is taken. */
  readonly isStopping: () => boolean;
}

interface IdOrSlug {
  readonly Params: { readonly idOrSlug: string };
}

/** GET and HEAD are handshakes of some publishers. */
const METHODS = ['POST', 'GET', 'HEAD'];
const ALLOWANCE = 'bodyAllowance';
const IS_LATE = 'arrivedDuringStop';

/** The public surface: reads the capped raw body of a delivery, hands it to the receiver, writes the answer. */
export async function ingress(app: FastifyInstance, services: IngressServices): Promise<void> {
  const receive = receiver(services);
  const budget = bodyBudget(services.maxBodyBytesInFlight);
  const { maxBodyBytes: maxBytes } = services;
  app.decorateRequest(ALLOWANCE).decorateRequest(IS_LATE, false);

  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (request: FastifyRequest, payload: IncomingMessage) =>
    readBody(payload, request.headers['content-length'], {
      maxBytes,
      allowance: request.getDecorator<BodyAllowance>(ALLOWANCE),
    }),
  );

  app.addHook('onRequest', (request, reply, done) => {
    // No publisher tests an endpoint with another method: not even the body is read.
    if (!METHODS.includes(request.method)) {
      write(reply, methodNotAllowed());
      return;
    }
    // Fastify answers a malformed content type with 415 before any parser runs; to this route every body is bytes, and
    // the delivery reads the type that was sent from the raw headers.
    request.raw.headers['content-type'] = 'application/octet-stream';
    if (!hasHost(request, services.clientAddress)) {
      write(reply, malformedHost());
      return;
    }
    const allowance = budget.open(addressGroup(senderOf(request, services.senderAddress)));
    reply.raw.once('close', allowance.release);
    request.setDecorator(ALLOWANCE, allowance);
    request.setDecorator(IS_LATE, services.isStopping());
    done();
  });

  app.setErrorHandler<FastifyError | BodyError>(async (error, request, reply) => {
    if (!(error instanceof BodyError) || error.statusCode === 400) throw error;
    if (error.statusCode === 503) return write(reply, receive.overloaded());
    if (error.statusCode === 408) {
      services.logger.info({ peer: request.socket.remoteAddress }, 'a body stopped arriving and was cut');
      return write(reply, bodyStopped());
    }
    const span = startReceiveSpan(request.headers, services.traceparent);
    try {
      return write(reply, await receive.tooLarge(toDelivery(request, services), idOrSlugOf(request), span));
    } finally {
      endSpan(span, reply);
    }
  });

  app.route<IdOrSlug>({
    method: app.supportedMethods,
    url: '/flows/api/webhook/:idOrSlug',
    handler: (request, reply) => handle(request, reply, { receive, services }),
  });
}

async function handle(
  request: FastifyRequest<IdOrSlug>,
  reply: FastifyReply,
  { receive, services }: { receive: ReturnType<typeof receiver>; services: IngressServices },
): Promise<FastifyReply> {
  const span = startReceiveSpan(request.headers, services.traceparent);
  try {
    const delivery = toDelivery(request, services);
    const { idOrSlug } = request.params;
    const answer = request.getDecorator<boolean>(IS_LATE)
      ? receive.stopping(delivery, idOrSlug, span)
      : receive.delivery(delivery, idOrSlug, span);
    return write(reply, await answer);
  } finally {
    endSpan(span, reply);
  }
}

function endSpan(span: Span, reply: FastifyReply): void {
  span.setAttribute('http.response.status_code', reply.statusCode);
  span.end();
}

function write(reply: FastifyReply, answer: WebhookAnswer): FastifyReply {
  return reply
    .code(answer.statusCode)
    .headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff', ...answer.headers })
    .type(answer.contentType)
    .send(answer.body);
}

function idOrSlugOf(request: FastifyRequest): string {
  return (request as FastifyRequest<IdOrSlug>).params.idOrSlug;
}
