import { z } from 'zod';
import { type ReconcileRule, reconcileFields, secret } from './reconcile-fields.ts';

/** Stripe's events that an endpoint has not accepted. */
export const stripeSchema = z.strictObject({
  from: z.literal('stripe').describe('The events of a Stripe account.'),
  token: secret.describe('Restricted API key that may read events: env:NAME or file:PATH.'),
  types: z
    .array(z.string().regex(/^[a-z0-9_.]+$/, { error: 'is not a type of event, such as invoice.paid' }))
    .min(1)
    .max(20)
    .optional()
    .describe(
      'Types of events that the endpoint gets, at most 20; without it, those that any endpoint of the account has not accepted.',
    ),
  ...reconcileFields,
});

export const stripeRule: ReconcileRule = { secrets: ['token'], isUnsigned: true };
