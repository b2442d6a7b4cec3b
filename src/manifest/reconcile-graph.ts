import { z } from 'zod';
import { type ReconcileRule, reconcileFields, secret } from './reconcile-fields.ts';

// Those that Microsoft Graph sends lifecycle notifications of kind `missed` for.
const RESOURCE = /^(?:users\/[^/?#\s{}"\\]+\/(?:[^?#\s{}"\\]+\/)?(?:messages|events|contacts))$/i;

const NOTIFICATION =
  'it.changeType + " " + it.resourceData.id + (it.changeType == "created" ? "" : " " + it.resourceData["@odata.etag"])';

/** What was made or changed in a mailbox that a subscription of Microsoft Graph watches. */
export const graphSchema = z.strictObject({
  from: z.literal('graph').describe('What was made or changed in a mailbox of Microsoft 365.'),
  resource: z
    .string()
    .regex(RESOURCE, {
      error: 'is not users/ID/ and messages, events or contacts, such as users/ada@example.com/messages',
    })
    .describe('Resource of the subscription, such as users/ada@example.com/messages.'),
  changeType: z.enum(['created', 'updated']).describe('Changes that are looked for: created or updated.'),
  subscriptionId: z
    .guid({ error: 'is not a GUID' })
    .optional()
    .describe('Id of the subscription, for flows that read it.'),
  tenant: z
    .string()
    .regex(/^[A-Za-z0-9.-]+$/, { error: 'is not the id or the domain of a tenant' })
    .describe('Id or domain of the tenant.'),
  clientId: z.guid({ error: 'is not a GUID' }).describe('Id of the application.'),
  clientSecret: secret.describe('Secret of the application: env:NAME or file:PATH.'),
  loginUrl: reconcileFields.baseUrl.describe(
    'Base URL of the sign-in, for a national cloud; https://login.microsoftonline.com by default.',
  ),
  ...reconcileFields,
});

export const graphRule: ReconcileRule = {
  secrets: ['clientSecret'],
  isUnsigned: true,
  // A version of an item has a tag of its own. A lifecycle notification names no item, and so no event.
  eventId: `body.value.map(it, ${NOTIFICATION}).join(",")`,
};
