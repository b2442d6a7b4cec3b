import type { ExpressionContext } from '../../src/expressions/context.ts';

/** The data of an order's delivery for its run's expressions. */
export const context: ExpressionContext = {
  trigger: {
    key: 'orders',
    headers: { 'x-event': 'order.paid', authorization: '[redacted]' },
    body: {
      amount: 1999,
      n: 3,
      ratio: 0.5,
      name: 'Ada "L"',
      empty: '',
      nothing: null,
      isPaid: true,
      loop: 'a property',
      items: [
        { sku: 'a', count: 2 },
        { sku: 'b', count: 0 },
      ],
      numbers: [1, 2],
      mixed: [1, 'a', null],
      constructor: 'own',
    },
  },
  run: { id: 'r-1', startedAt: '2026-03-01T12:00:00.000Z', flow: 'f-1', revision: 7 },
  steps: {
    fetch: { status: 'Succeeded', output: { status: 200, body: { id: 7 } }, error: null },
    'my-step': {
      status: 'Failed',
      output: null,
      error: { code: 'http_status', message: 'the server answered 500', retryable: true },
    },
  },
};

export const loopContext: ExpressionContext = { ...context, loop: { item: { sku: 'c' }, index: 2 } };
