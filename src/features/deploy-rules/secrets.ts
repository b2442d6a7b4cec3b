import { findingAt } from '../../deploys/changes/revisions.ts';
import { learnsKey, WEBHOOK_FIELDS, type WebhookInputs } from '../../manifest/webhook-fields.ts';
import type { Finding } from '../../model/finding.ts';
import { type ChangeRule, type WebhookPair, webhookPairs } from './change.ts';

type SecretField = (typeof WEBHOOK_FIELDS.secret)[number];
type KeyFinding = Pick<Finding, 'rule' | 'class' | 'message' | 'consequence' | 'advice'>;

/** Changed sources of webhook keys. Snapshots hold references and masks, never a value. */
export const secretsChanged: ChangeRule = (change) =>
  webhookPairs(change).flatMap((pair) =>
    WEBHOOK_FIELDS.secret
      .filter((field) => JSON.stringify(pair.before[field]) !== JSON.stringify(pair.after[field]))
      .map((field) =>
        findingAt(['triggers', pair.key, 'inputs', field], {
          before: shown(pair.before[field]),
          after: shown(pair.after[field]),
          ...keyFinding(pair, field),
        }),
      ),
  );

function keyFinding(pair: WebhookPair, field: SecretField): KeyFinding {
  const { key, before, after } = pair;
  if (field === 'webhookVerifyToken') return verifyToken(pair);
  const isPrevious = field === 'webhookHmacKeyPrevious' || field === 'webhookSecretPrevious';
  if (!after[field]) {
    if (isPrevious) {
      if (isKept(before, after)) return reference(pair, field);
      return stronger(
        `\`${key}\` no longer has ${field}.`,
        'Deliveries signed with the previous key are no longer verified.',
      );
    }
    if (keysOf(after).length > 0) return reference(pair, field);
    return learnsKey(after) ? leftToPublisher(key, field) : lostKey(key, field);
  }
  if (!isPrevious) return inForce(pair, field);
  return keysOf(before).some((each) => each === after[field]) || isKept(before, after)
    ? reference(pair, field)
    : secondKey(key, field);
}

/** For lists of keys: who can deliver now. All masks look the same, so only the number of keys shows an added one. */
function inForce(pair: WebhookPair, field: SecretField): KeyFinding {
  const { key, before, after } = pair;
  const [from, to] = [keysOf(before), keysOf(after)];
  if (from.length === 0 || (from.length === 1 && to.length === 1)) return reference(pair, field);
  const isFewer = from.some((each) => !to.includes(each));
  if (to.length > from.length || (!isFewer && to.some((each) => !from.includes(each)))) {
    return weaker({
      message: `\`${key}\` accepts a further key in ${field}.`,
      consequence: 'Anyone who holds that key can deliver too. Runs in flight are not affected.',
      advice: `If it replaces another key, name that one in ${field}Previous instead.`,
    });
  }
  if (to.some((each) => !from.includes(each))) return reference(pair, field);
  if (!isFewer) return reference(pair, field, 'The same keys are in force. Runs in flight are not affected.');
  return stronger(
    `\`${key}\` has fewer keys in ${field}.`,
    'Deliveries signed with the other keys are no longer verified.',
  );
}

const shown = (written: WebhookInputs[SecretField]) => (typeof written === 'object' ? [...written] : written);

/** The present name of a field wins over its legacy name, empty or not. */
function keysOf({ webhookHmacKey, webhookSecret }: WebhookInputs): readonly string[] {
  return [webhookHmacKey ?? webhookSecret ?? []].flat().filter((text) => text !== '');
}

function previousOf({ webhookHmacKeyPrevious, webhookSecretPrevious }: WebhookInputs): string | undefined {
  return webhookHmacKeyPrevious ?? webhookSecretPrevious;
}

function isKept(before: WebhookInputs, after: WebhookInputs): boolean {
  return previousOf(after) !== undefined && previousOf(before) === previousOf(after);
}

function reference(
  { key, before, after }: WebhookPair,
  field: SecretField,
  consequence = 'After the deploy, deliveries are verified with the new key. One that was signed with a removed key is no longer ' +
    'verified; during a rotation webhookHmacKeyPrevious holds the old one. Runs in flight are not affected.',
): KeyFinding {
  const verb =
    before[field] === undefined ? 'is new' : after[field] === undefined ? 'was removed' : 'comes from elsewhere';
  return {
    rule: 'secret-reference-changed',
    class: 'safe',
    message: `${field} of \`${key}\` ${verb}; its value is never shown.`,
    consequence,
  };
}

/** Not a key: it only opens the handshake by which a publisher registers the URL. */
function verifyToken(pair: WebhookPair): KeyFinding {
  return reference(
    pair,
    'webhookVerifyToken',
    `${pair.after.webhookVerifyToken ? 'Handshakes are answered if they carry the new token.' : 'Handshakes are refused.'} Deliveries are not affected.`,
  );
}

function stronger(message: string, consequence: string): KeyFinding {
  return { rule: 'gate-strengthened', class: 'safe', message, consequence };
}

function secondKey(key: string, field: SecretField): KeyFinding {
  return weaker({
    message: `\`${key}\` accepts a previous key that was not its key before.`,
    consequence: 'Anyone who holds that key can deliver too. Runs in flight are not affected.',
    advice: `Move the reference of the current key to ${field}, or leave ${field} out.`,
  });
}

function leftToPublisher(key: string, field: SecretField): KeyFinding {
  return weaker({
    message: `\`${key}\` no longer has ${field}, and learns its key.`,
    consequence:
      'The trigger uses the key that it learned earlier, if there is one, or else the first one that a handshake sends; ' +
      'the sender of that handshake can deliver from then on, even a stranger.',
    advice: 'Keep a key configured, or create the webhook at the publisher right after the deploy.',
  });
}

function lostKey(key: string, field: SecretField): KeyFinding {
  return weaker({
    message: `\`${key}\` no longer has ${field}, and has no other key.`,
    consequence:
      'Nothing can be verified, and no key is learned. With a scheme, every delivery fails the signature gate, which Enforce ' +
      'refuses and Off and Audit accept; without a scheme there is no signature gate.',
    advice: 'Set a key with env:NAME or file:PATH.',
  });
}

function weaker(texts: Pick<KeyFinding, 'message' | 'consequence' | 'advice'>): KeyFinding {
  return { rule: 'gate-weakened', class: 'caution', ...texts };
}
