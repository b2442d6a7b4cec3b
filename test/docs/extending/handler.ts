import { defineConfig, defineHandler, z } from '@sluicehq/sluice';

const createInvoice = defineHandler({
  type: 'CreateInvoice',
  inputs: z.object({
    url: z.url().describe('Where invoices are created.'),
    order: z.string().describe('Number of the order.'),
    token: z.string().describe('Bearer token: env:NAME or file:PATH.'),
  }),
  secretInputs: ['token'],
  async run({ inputs, idempotencyKey, signal, logger }) {
    const response = await fetch(inputs.url, {
      method: 'POST',
      headers: { authorization: `Bearer ${inputs.token}`, 'idempotency-key': idempotencyKey },
      body: JSON.stringify({ order: inputs.order }),
      signal,
    });
    if (response.status === 503) {
      return {
        kind: 'failed',
        code: 'invoices_busy',
        message: 'invoices are busy',
        retryable: true,
        retryAfterMs: 5000,
      };
    }
    logger.info({ order: inputs.order }, 'an invoice was created');
    const { invoice } = z.object({ invoice: z.number() }).parse(await response.json());
    return { kind: 'succeeded', output: invoice };
  },
});

export default defineConfig({ enforcementMode: 'Enforce', handlers: [createInvoice] });
