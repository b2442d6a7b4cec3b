import type { WebhookInputs, WebhookTrigger } from '../manifest/webhook-inputs.ts';
import type { SignatureSettings } from './gates/signature.ts';
import type { JwtRule, MessageRule, StandardScheme } from './schemes/standards/standard.ts';

type Report = (field: keyof WebhookInputs, message: string) => void;

interface Reports {
  /** Something that weakens the gate. */
  readonly weakness: Report;
  readonly warning: Report;
}

/** Reports what a trigger with a scheme of a standard leaves open. */
export function checkStandard(
  { trigger, settings }: { readonly trigger: WebhookTrigger; readonly settings: SignatureSettings },
  { name, rule, publisher }: StandardScheme,
  reports: Reports,
): void {
  const { inputs, keys } = trigger;
  const isKeyNamed = inputs.webhookHmacKey !== undefined || inputs.webhookSecret !== undefined;
  if (rule.keySetUrl === undefined && !isKeyNamed) {
    reports.warning(
      'webhookHmacKey',
      `is missing: no delivery can be verified. Set it${publisher === undefined ? ', or webhookJwksUrl' : ''}`,
    );
  }
  if (rule.keySetUrl !== undefined && keys.previous !== undefined) {
    reports.warning('webhookHmacKeyPrevious', 'is ignored: the keys are those of webhookJwksUrl');
  }
  // No trigger can ask for more than its publisher signs; the grade says what is open.
  if (publisher !== undefined) {
    if (publisher.form.urlHash?.of === 'url') checkUrl('the URL', { inputs, settings, reports });
  } else if (rule.standard === 'Jwt') checkJwt(rule, inputs, reports);
  else checkMessages(rule, { inputs, settings, reports });
  const { webhookNonceHeader: nonce, webhookTimestampHeader: timestamp } = inputs;
  const signed: readonly string[] = rule.standard === 'Jwt' ? [] : rule.components;
  const isSigned = (header: string) => signed.includes(header.trim().toLowerCase());
  if (nonce !== undefined && !isSigned(nonce)) {
    const message = `is not signed by ${name}: a captured delivery passes again with another value in it`;
    reports.weakness('webhookNonceHeader', message);
  }
  if (timestamp !== undefined && !isSigned(timestamp)) {
    const message = `is not signed by ${name}: where the signature has no time of its own, an old delivery passes with a new one`;
    reports.weakness('webhookTimestampHeader', message);
  }
}

function checkJwt(
  { keySetUrl, issuer, audience, bodyHashClaim }: JwtRule,
  inputs: WebhookInputs,
  reports: Reports,
): void {
  if (bodyHashClaim === undefined) {
    reports.warning(
      'webhookJwtBodyHashClaim',
      'is missing: the body is not signed, and anyone who captures a token can send any body until it expires; set it if the publisher hashes the body',
    );
  }
  if (keySetUrl !== undefined && audience === undefined && bodyHashClaim === undefined) {
    const whose = issuer === undefined ? ', and so is webhookJwtIssuer' : '';
    reports.weakness(
      'webhookJwtAudience',
      `is missing${whose}: every token that is signed with a key of webhookJwksUrl passes, for whomever it was made`,
    );
  }
  checkTime('iat', inputs, reports);
}

const URL_COMPONENTS = ['@target-uri', '@authority', '@scheme'];

function checkMessages(
  { components }: MessageRule,
  { inputs, settings, reports }: { inputs: WebhookInputs; settings: SignatureSettings; reports: Reports },
): void {
  if (!components.includes('content-digest')) {
    reports.weakness(
      'webhookRequiredComponents',
      'does not list content-digest: the body need not be signed, and anyone who captures a delivery can send any body',
    );
  }
  checkUrl(components.filter((component) => URL_COMPONENTS.includes(component)).join(', '), {
    inputs,
    settings,
    reports,
  });
  checkTime('created', inputs, reports);
}

/** Checks the public URL if part of the URL is signed. */
function checkUrl(
  what: string,
  { inputs, settings, reports }: { inputs: WebhookInputs; settings: SignatureSettings; reports: Reports },
): void {
  if (what === '' || inputs.webhookPublicUrl !== undefined || settings.publicUrl !== undefined) return;
  const message = `is missing, and so is SLUICE_PUBLIC_URL: ${what} is then taken from the headers of the request`;
  reports.weakness('webhookPublicUrl', message);
}

/** A tolerance measures nothing if the sender leaves the time out. */
function checkTime(name: string, inputs: WebhookInputs, { warning }: Reports): void {
  if (inputs.webhookReplayToleranceSeconds === 0 || inputs.webhookRequireTimestamp !== undefined) return;
  if (inputs.webhookReplayToleranceSeconds === undefined) return;
  warning(
    'webhookRequireTimestamp',
    `is missing: a signature without the time "${name}" passes at any age; set it to true if the publisher always sends it, else to false`,
  );
}
