import { randomBytes } from 'node:crypto';
import { processEnvironment } from '../config/settings.ts';
import { secretReader } from '../manifest/read-secret.ts';
import { resolveSecret } from '../manifest/secrets.ts';
import type { WebhookTrigger } from '../model/manifest.ts';
import type { SignatureSpec } from '../webhooks/schemes/spec.ts';
import { CommandError } from './context.ts';

/** The key to sign with: one that nobody has, the one given, else the trigger's own. */
export function signingKey(
  { triggerKey, keys }: Pick<WebhookTrigger, 'triggerKey' | 'keys'>,
  spec: SignatureSpec,
  options: { readonly key?: string; readonly wrongKey?: true },
): string {
  if (options.wrongKey) return wrongKey(spec);
  if (options.key !== undefined) return givenKey(options.key);
  if (spec.algorithm === 'ed25519') {
    throw new CommandError(
      `${spec.name} signs with a private key, and the trigger has the public one: make a pair of your own, and give its private key with --key`,
    );
  }
  const key = keys.current ?? keys.previous;
  if (key !== undefined) return key;
  throw new CommandError(`The trigger "${triggerKey}" has no webhookHmacKey to sign with; give a key with --key`);
}

function givenKey(text: string): string {
  const readSecret = secretReader({ env: processEnvironment(), baseFolder: process.cwd() });
  const secret = resolveSecret(text, readSecret);
  if ('error' in secret) throw new CommandError(`--key: ${secret.error}`);
  return secret.value;
}

function wrongKey({ keyEncoding }: SignatureSpec): string {
  const wrong = randomBytes(32);
  if (keyEncoding === 'hex') return wrong.toString('hex');
  return `${keyEncoding === 'whsec' ? 'whsec_' : ''}${wrong.toString('base64')}`;
}
