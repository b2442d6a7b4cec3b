import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import type { signatureGate as SignatureGate, SignatureSettings } from '../../src/webhooks/gates/signature.ts';
import type { BUILT_IN_SCHEMES as Schemes } from '../../src/webhooks/schemes/publishers/index.ts';
import type { createSchemeRegistry as CreateRegistry } from '../../src/webhooks/schemes/resolve.ts';
import type { signDelivery as SignDelivery } from '../../src/webhooks/schemes/sign.ts';

/**
 * Measures the signature gate for the most common schemes, here or in another checkout (`--root DIR`), so that you can
 * compare before and after a change. Figures of two machines, or of two hours, cannot be compared.
 */
const { values } = parseArgs({
  options: {
    root: { type: 'string', default: resolve(import.meta.dirname, '../..') },
    deliveries: { type: 'string', default: '10000' },
    rounds: { type: 'string', default: '5' },
    bytes: { type: 'string', default: '2000' },
  },
});
const load = (path: string) => import(pathToFileURL(join(resolve(values.root), 'src/webhooks', path)).href);
const { signatureGate } = (await load('gates/signature.ts')) as { signatureGate: typeof SignatureGate };
const { createSchemeRegistry } = (await load('schemes/resolve.ts')) as { createSchemeRegistry: typeof CreateRegistry };
const { BUILT_IN_SCHEMES } = (await load('schemes/publishers/index.ts')) as { BUILT_IN_SCHEMES: typeof Schemes };
const { signDelivery } = (await load('schemes/sign.ts')) as { signDelivery: typeof SignDelivery };

const COMMON = ['GitHub', 'Stripe', 'Slack', 'Shopify', 'StandardWebhooks'];
const [count, rounds] = [Number(values.deliveries), Number(values.rounds)];
const AT = 1_700_000_000_000;
const URL_CALLED = 'https://hooks.example.com/flows/api/webhook/in';
const body = Buffer.from(JSON.stringify({ type: 'paid', text: 'x'.repeat(Number(values.bytes)) }));
const settings = {
  clock: { now: () => AT, monotonic: () => 0 },
  replayToleranceSeconds: 300,
  nonceTtlSeconds: 86_400,
  allowLegacySha1: false,
  schemes: createSchemeRegistry(),
} as unknown as SignatureSettings;

/** CPU microseconds of one check: the minimum of the rounds, which other work on the machine disturbs least. */
async function measure(name: string): Promise<{ readonly least: number; readonly median: number }> {
  const spec = BUILT_IN_SCHEMES.find((it) => it.name === name);
  if (spec === undefined) throw new Error(`there is no scheme ${name}`);
  const key =
    spec.keyEncoding === 'whsec'
      ? `whsec_${Buffer.alloc(24, 7).toString('base64')}`
      : 'a key of thirty-two bytes in all';
  const signing = { spec, key, body, url: URL_CALLED, timestampMs: AT, deliveryId: 'msg_1' };
  const { headers } = signDelivery({ ...signing, contentType: 'application/json' });
  const trigger = {
    flowId: 'f',
    flowName: 'f',
    triggerKey: 't',
    keys: { current: key, previous: undefined },
    inputs: { webhookSignatureScheme: name, webhookHmacKey: 'env:KEY' },
  } as unknown as Parameters<typeof SignatureGate.prepare>[0];
  const gate = signatureGate.prepare(trigger, settings);
  const delivery = {
    id: 'd',
    receivedAt: AT,
    method: 'POST',
    path: '/flows/api/webhook/in',
    requestUrl: URL_CALLED,
    headers: Object.fromEntries(Object.entries(headers).map(([header, value]) => [header.toLowerCase(), value])),
    body,
    clientIp: '127.0.0.1',
  };
  const times: number[] = [];
  for (let round = 0; round <= rounds; round += 1) {
    const begun = process.cpuUsage();
    for (let left = count; left > 0; left -= 1) {
      const verdict = await gate?.check(delivery, {});
      if (verdict?.passed !== true) throw new Error(`${name} refuses what it signs`);
    }
    const { user, system } = process.cpuUsage(begun);
    times.push((user + system) / count);
  }
  // The first round is a warm-up.
  const sorted = times.slice(1).sort((one, other) => one - other);
  return { least: sorted[0] ?? Number.NaN, median: sorted[Math.floor(sorted.length / 2)] ?? Number.NaN };
}

for (const name of COMMON) {
  const { least, median } = await measure(name);
  process.stdout.write(`${name.padEnd(18)} ${least.toFixed(2)} µs at least, ${median.toFixed(2)} µs in the middle\n`);
}
