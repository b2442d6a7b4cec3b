import { expect, it } from 'vitest';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import { startGateway } from './gateway.ts';

const KEY = 'token-of-more-than-sixteen-bytes';

/** Header names that say nothing, or that suggest a signature of only one delivery. */
it.each(['X-Acme', 'X-Acme-Signature'])('keeps no token, wherever it is sent: %s', async (webhookSignatureHeader) => {
  const inputs: WebhookInputs = {
    webhookSignatureScheme: 'Token',
    webhookHmacKey: KEY,
    webhookSignatureHeader,
    webhookEnforcementMode: 'Enforce',
  };
  const gateway = await startGateway({ triggers: { acme: inputs } });
  const deliver = (token: string) =>
    gateway.deliver('acme', { headers: { [webhookSignatureHeader]: token }, body: 'x' });
  const accepted = await deliver(KEY);
  expect(accepted.status).toBe(200);
  expect((await deliver(`${KEY}x`)).status).toBe(401);
  const { headers, runId } = await gateway.latestDelivery();
  expect(headers[webhookSignatureHeader.toLowerCase()]).toBe('[redacted]');
  const { runId: run } = JSON.parse(accepted.text);
  for (const path of [`/flows/api/runs/${run}/trigger`, `/flows/api/runs/${run}`, '/flows/api/webhooks/recent']) {
    expect(await gateway.get(path), path).not.toContain(KEY);
  }
  expect(runId).toBeNull();
  expect(gateway.logged.join('')).not.toContain(KEY);
});
