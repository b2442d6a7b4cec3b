import { defineHandler, type StepHandler, z } from '@sluicehq/sluice';

const ANSWER = z.object({ id: z.number() });

interface Service {
  readonly type: string;
  /** What a step says to the service; sent as JSON. */
  readonly fields: z.ZodRawShape;
}

/** A step type that posts to one of our services, and yields the id in its answer. */
function callService({ type, fields }: Service): StepHandler {
  return defineHandler({
    type,
    inputs: z.strictObject({
      url: z.string().describe('Address of the service: env:NAME.'),
      token: z.string().describe('Bearer token: env:NAME or file:PATH.'),
      fields: z.strictObject(fields),
    }),
    secretInputs: ['url', 'token'],
    async run({ inputs, idempotencyKey, signal }) {
      const response = await fetch(inputs.url, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${inputs.token}`,
          'content-type': 'application/json',
          'idempotency-key': idempotencyKey,
        },
        body: JSON.stringify(inputs.fields),
        signal,
      });
      const failed = (retryable: boolean) =>
        ({ kind: 'failed', code: 'service_refused', message: `${type}: ${response.status}`, retryable }) as const;
      if (response.status >= 500 || response.status === 429) return failed(true);
      if (!response.ok) return failed(false);
      return { kind: 'succeeded', output: ANSWER.parse(await response.json()).id };
    },
  });
}

export const handlers = [
  callService({ type: 'CreateInvoice', fields: { order: z.string(), total: z.number() } }),
  callService({ type: 'ReserveStock', fields: { order: z.string(), lines: z.array(z.unknown()) } }),
  callService({ type: 'SendMail', fields: { to: z.email(), subject: z.string() } }),
];
