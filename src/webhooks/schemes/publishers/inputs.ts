import type { WebhookInputs } from '../../gate.ts';
import { hasPart } from '../layout.ts';
import type { PublisherSpec } from '../spec.ts';
import type { PublisherRow } from './row.ts';

/** What pages and the trigger of a publisher are called. */
export function slugOf({ title, row }: { readonly title: string; readonly row?: PublisherRow | undefined }): string {
  return (
    row?.trigger?.webhookSlug ??
    title
      .replace(/\(.*\)/g, '')
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, '-')
      .replace(/^-|-$/g, '')
  );
}

/** The URL of a trigger where there is no service yet. */
export const exampleUrl = (slug: string) => `https://hooks.example.com/flows/api/webhook/${slug}`;

/** The fields of a trigger that takes the publisher's deliveries, as its page has them: of the scheme, or else those that the row names. */
export function publisherInputs(row: PublisherRow, spec: PublisherSpec): WebhookInputs {
  const slug = slugOf({ title: spec.title, row });
  const variable = spec.name.replace(/([a-z0-9])([A-Z])/g, '$1_$2').toUpperCase();
  const { signs, algorithm, headers, handshakes = [] } = spec;
  const id = headers[0]?.deliveryId;
  const fields: { readonly [Field in keyof WebhookInputs]: WebhookInputs[Field] | null } = {
    webhookSlug: slug,
    webhookSignatureScheme: spec.name,
    ...(handshakes.some(({ offeredKey }) => offeredKey !== undefined)
      ? { webhookLearnKey: true }
      : { webhookHmacKey: `env:${variable}_KEY` }),
    ...(handshakes.some(({ needsVerifyToken }) => needsVerifyToken === true) && {
      webhookVerifyToken: `env:${variable}_TOKEN`,
    }),
    ...(algorithm === 'sha1' && { webhookAllowSha1: true }),
    ...(hasPart(signs, 'url') && { webhookPublicUrl: exampleUrl(slug) }),
    ...(id !== undefined && { webhookNonceHeader: id }),
    ...((spec.timestamp !== undefined || id === undefined) && {
      webhookReplayToleranceSeconds: row.toleranceSeconds ?? 300,
    }),
    webhookDuplicateResponse: 'acknowledge',
    ...row.trigger,
    webhookEnforcementMode: 'Enforce',
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}
