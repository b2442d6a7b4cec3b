import { z } from 'zod';
import { listRule, listSchema } from './list-schema.ts';
import { type LogRule, logFields, secret } from './log-fields.ts';

const REPOSITORY = /^[A-Za-z0-9._-]{1,100}\/[A-Za-z0-9._-]{1,100}$/;
const ORGANIZATION = /^[A-Za-z0-9-]{1,100}$/;

/** GitHub's log of one webhook of a repository or an organization. */
export const githubSchema = z
  .strictObject({
    from: z.literal('github').describe('The log of a webhook at GitHub.'),
    repo: z
      .string()
      .regex(REPOSITORY, { error: 'is not owner/name' })
      .optional()
      .describe('Repository, as owner/name.'),
    org: z
      .string()
      .regex(ORGANIZATION, { error: 'is not the name of an organization' })
      .optional()
      .describe('Organization, for one of its webhooks; instead of repo.'),
    hook: z.int().min(1).describe('Id of the webhook: the number at the end of the URL of its settings.'),
    token: secret.describe('Token that may read the webhook: env:NAME or file:PATH.'),
    ...logFields,
  })
  .superRefine(({ repo, org }, { addIssue }) => {
    if (repo === undefined && org === undefined)
      addIssue({ code: 'custom', path: ['repo'], message: 'is missing; a repository as owner/name, or org' });
    if (repo !== undefined && org !== undefined)
      addIssue({ code: 'custom', path: ['org'], message: 'is set next to repo; a webhook belongs to one of them' });
  });

export const githubRule: LogRule = {
  secrets: ['token'],
  // The same for every sending of one event, even for a manual redelivery.
  eventId: 'headers["x-github-delivery"]',
};

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
  ...logFields,
});

export const stripeRule: LogRule = { secrets: ['token'], isUnsigned: true };

/** Topics whose deliveries contain the same as a list of the Admin API, each item once. */
export const SHOPIFY_TOPICS = ['orders/create', 'customers/create', 'products/create'] as const;

/** Objects created in a Shopify store, for topics that announce creations. */
export const shopifySchema = z.strictObject({
  from: z.literal('shopify').describe('What was made in a Shopify store.'),
  shop: z
    .string()
    .regex(/^[a-z0-9][a-z0-9-]*\.myshopify\.com$/, {
      error: 'is not the domain of a shop, such as example.myshopify.com',
    })
    .describe('Domain of the shop, such as example.myshopify.com.'),
  topic: z.enum(SHOPIFY_TOPICS).describe(`Topic that the webhook is subscribed to: ${SHOPIFY_TOPICS.join(', ')}.`),
  token: secret.describe('Access token of the Admin API that may read the resource: env:NAME or file:PATH.'),
  version: z
    .string()
    .regex(/^\d{4}-(01|04|07|10)$/, { error: 'is not a version of the Admin API, such as 2026-10' })
    .describe('Version of the Admin API, such as 2026-10: that of the webhook, so that bodies have the same fields.'),
  ...logFields,
});

export const shopifyRule: LogRule = {
  secrets: ['token'],
  isUnsigned: true,
  // An object is created only once. For other topics at the same URL, each event has its own id.
  eventId:
    'headers["x-shopify-topic"].endsWith("/create") ? headers["x-shopify-topic"] + " " + body.admin_graphql_api_id : headers["x-shopify-event-id"]',
};

// Resources for which Microsoft Graph sends lifecycle notifications of kind `missed`.
const RESOURCE = /^(?:users\/[^/?#\s{}"\\]+\/(?:[^?#\s{}"\\]+\/)?(?:messages|events|contacts))$/i;

const NOTIFICATION =
  'it.changeType + " " + it.resourceData.id + (it.changeType == "created" ? "" : " " + it.resourceData["@odata.etag"])';

/** Items created or changed in a mailbox that a subscription of Microsoft Graph watches. */
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
  loginUrl: logFields.baseUrl.describe(
    'Base URL of the sign-in, for a national cloud; https://login.microsoftonline.com by default.',
  ),
  ...logFields,
});

export const graphRule: LogRule = {
  secrets: ['clientSecret'],
  isUnsigned: true,
  // Each version of an item has its own tag. A lifecycle notification names no item, so it has no event id.
  eventId: `body.value.map(it, ${NOTIFICATION}).join(",")`,
};

/** Where missed deliveries of a trigger are fetched: one form for each kind of log, distinguished by `from`. */
export const reconcileSchema = z
  .discriminatedUnion('from', [githubSchema, stripeSchema, shopifySchema, graphSchema, listSchema])
  .describe('The publisher’s own log: what it says it sent and was never accepted is fetched, and accepted once.');

/** As written, before its secrets are read; also used after they are read. */
export type Reconcile = Readonly<z.output<typeof reconcileSchema>>;

export const RECONCILE_RULES: Readonly<Record<Reconcile['from'], LogRule>> = {
  github: githubRule,
  stripe: stripeRule,
  shopify: shopifyRule,
  graph: graphRule,
  list: listRule,
};
