import type { DeployedFlow } from '../../src/flows/catalog.ts';
import { prepareRevision } from '../../src/flows/prepared-revision.ts';
import type { WebhookInputs, WebhookTrigger } from '../../src/manifest/webhook-inputs.ts';
import type { Clock } from '../../src/model/clock.ts';
import type { Delivery } from '../../src/model/delivery.ts';
import type { SignatureSettings } from '../../src/webhooks/gates/signature.ts';
import { createSchemeRegistry } from '../../src/webhooks/schemes/resolve.ts';

export const NOW = Date.UTC(2026, 10, 21, 12);
export const FLOW_ID = '0b8f4a52-6f0e-4b7e-9a38-5d5c0b5a9c11';

export class FakeClock implements Clock {
  #elapsedMs = 0;

  now(): number {
    return NOW + this.#elapsedMs;
  }

  ledger(): number {
    return NOW + this.#elapsedMs;
  }

  monotonic(): number {
    return this.#elapsedMs;
  }

  advance(ms: number): void {
    this.#elapsedMs += ms;
  }
}

export function sampleDelivery(given: Partial<Delivery> = {}): Delivery {
  return {
    id: '01939a5e-7c1f-7000-8000-000000000001',
    receivedAt: NOW,
    method: 'POST',
    path: '/flows/api/webhook/orders',
    requestUrl: 'http://127.0.0.1:3000/flows/api/webhook/orders',
    headers: {},
    body: Buffer.from('{"id":1}'),
    clientIp: '203.0.113.9',
    ...given,
  };
}

export function sampleTrigger(inputs: WebhookInputs = {}, given: Partial<WebhookTrigger> = {}): WebhookTrigger {
  const [current, ...others] = [inputs.webhookHmacKey ?? inputs.webhookSecret ?? []].flat();
  return {
    flowId: FLOW_ID,
    flowName: 'Orders',
    triggerKey: 'webhook',
    inputs,
    keys: { current, previous: inputs.webhookHmacKeyPrevious, ...(others.length > 0 && { others }) },
    verifyToken: inputs.webhookVerifyToken,
    hasConflictingKeys: false,
    ...given,
  };
}

export function sampleSettings(given: Partial<SignatureSettings> = {}): SignatureSettings {
  return {
    clock: new FakeClock(),
    replayToleranceSeconds: 0,
    nonceTtlSeconds: 86_400,
    rateLimitPermitsPerSecond: undefined,
    rateLimitBurstSize: undefined,
    rateLimitPerIp: undefined,
    allowLegacySha1: false,
    publicUrl: undefined,
    schemes: createSchemeRegistry(),
    ...given,
  };
}

/** A flow deployed in revision 3 that has only its webhooks. */
export function deployedFlow({
  id = FLOW_ID,
  webhooks,
}: {
  readonly id?: string;
  readonly webhooks: readonly WebhookTrigger[];
}): DeployedFlow {
  const triggers = Object.fromEntries(
    webhooks.map(({ triggerKey, inputs }) => [triggerKey, { type: 'webhook' as const, inputs }]),
  );
  const names = { id, name: 'Orders', version: '1.0' };
  const manifest = { ...names, triggers, steps: {} };
  return {
    record: { ...names, revision: 3, isEnabled: true, createdAt: NOW, updatedAt: NOW },
    loaded: { file: 'orders.json', manifest, snapshot: {}, files: {}, hash: '', source: 'folder', webhooks },
    prepared: prepareRevision(manifest, 'folder'),
  };
}
