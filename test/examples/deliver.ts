import { expect } from 'vitest';
import type { Service } from '../e2e/service.ts';
import { SDKS } from '../publishers/sdks.ts';

export interface Sent {
  readonly slug: string;
  /** The scheme whose own code signs, or confirms our signature if it cannot sign. */
  readonly scheme: string;
  readonly key: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly contentType?: string;
  readonly at?: Date;
}

/** Sends a delivery as the publisher does, and returns the answer. */
export async function deliver(service: Service, { slug, scheme, key, body, headers = {}, ...sent }: Sent) {
  const sdk = SDKS.find((each) => each.scheme === scheme);
  if (sdk === undefined) throw new Error(`no package signs ${scheme}`);
  const url = `${service.url}/flows/api/webhook/${slug}`;
  const given = { 'content-type': sent.contentType ?? 'application/json', ...headers };
  const signed = await sdk.sign({ url, headers: given, body }, key, sent.at ?? new Date());
  if (!sdk.canSign) expect(await sdk.verify?.(signed, key)).toBe(true);
  const response = await fetch(url, { method: 'POST', headers: { ...signed.headers }, body: signed.body });
  const text = await response.text();
  return { status: response.status, text, body: JSON.parse(text.startsWith('{') ? text : '{}') };
}
