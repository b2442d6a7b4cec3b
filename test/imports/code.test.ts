import { describe, expect, it } from 'vitest';
import { importCode } from '../../src/imports/code.ts';
import { NotReadable } from '../../src/imports/imported.ts';

/** Fields of the one trigger, without those that every one of them has. */
function fieldsOf(code: string) {
  const [trigger] = importCode(code).triggers;
  const verifiedBy = trigger?.verifiedBy;
  if (verifiedBy === undefined || 'scheme' in verifiedBy) return { ...verifiedBy, key: trigger?.key?.variable };
  const { webhookSignatureScheme: _, webhookReplayToleranceSeconds: __, ...fields } = verifiedBy.inputs;
  return { ...fields, key: trigger?.key?.variable };
}

const HEX = {
  webhookSignatureAlgorithm: 'sha256',
  webhookSignatureEncoding: 'hexLower',
  webhookSignedPayload: '{body}',
};

describe('code that verifies', () => {
  it.each([
    [
      'Node, the body alone',
      `const sig = req.headers['x-acme-signature'];
       const hash = crypto.createHmac('sha256', process.env.ACME_SECRET).update(req.body).digest('hex');
       return hash === sig;`,
      { ...HEX, webhookSignatureHeader: 'x-acme-signature', key: 'ACME_SECRET' },
    ],
    [
      'a prefix in a template, the body of a variable, base64',
      `import { createHmac } from 'crypto'
       const KEY = process.env['ACME_KEY']!
       export async function POST(request: Request) {
         const payload: string = await request.text()
         const given = request.headers.get("X-Acme-Hmac")
         const mac = createHmac("sha512", KEY)
         mac.update(payload)
         return given === \`v1=\${mac.digest("base64")}\`
       }`,
      {
        ...HEX,
        webhookSignatureAlgorithm: 'sha512',
        webhookSignatureEncoding: 'base64',
        webhookSignatureHeader: 'X-Acme-Hmac',
        webhookSignatureForm: 'v1={signature}',
        key: 'ACME_KEY',
      },
    ],
    [
      'a time in front of the body, one update after the other',
      `const ts = req.get('X-Acme-Timestamp')
       const ok = crypto.createHmac('sha256', secret)
         .update(ts)
         .update(':')
         .update(rawBody)
         .digest('hex') === req.header('X-Acme-Signature')`,
      {
        ...HEX,
        webhookSignatureHeader: 'X-Acme-Signature',
        webhookTimestampHeader: 'X-Acme-Timestamp',
        webhookSignedPayload: '{timestamp}:{body}',
        key: undefined,
      },
    ],
    [
      'Python, Flask',
      `import hmac, hashlib, os
SECRET = os.environ["ACME_SECRET"]

@app.route("/hook", methods=["POST"])
def hook():
    signature = request.headers.get("X-Acme-Signature")  # a comment with 'quotes
    expected = hmac.new(SECRET.encode("utf-8"), request.get_data(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest("sha256=" + expected, signature):
        abort(401)`,
      {
        ...HEX,
        webhookSignatureHeader: 'X-Acme-Signature',
        webhookSignatureForm: 'sha256={signature}',
        key: 'ACME_SECRET',
      },
    ],
    [
      'Python, Django, an f-string, named arguments, base64',
      `import base64
def verify(request):
    timestamp = request.META["HTTP_X_ACME_TIMESTAMP"]
    body = request.body.decode("utf-8")
    digest = hmac.new(key=settings.ACME_KEY, msg=f"{timestamp}.{body}".encode(), digestmod="sha256").digest()
    return base64.b64encode(digest).decode() == request.META.get("HTTP_X_ACME_SIGNATURE")`,
      {
        ...HEX,
        webhookSignatureEncoding: 'base64',
        webhookSignatureHeader: 'x-acme-signature',
        webhookTimestampHeader: 'x-acme-timestamp',
        webhookSignedPayload: '{timestamp}.{body}',
        key: undefined,
      },
    ],
    [
      'a header of segments',
      `const header = req.headers['acme-signature'];
       const parts = Object.fromEntries(header.split(',').map((part) => part.split('=')));
       const expected = crypto.createHmac('sha256', process.env.ACME_SECRET).update(parts.t + '.' + req.rawBody).digest('hex');
       return expected === parts.v1;`,
      {
        ...HEX,
        webhookSignatureHeader: 'acme-signature',
        webhookSignatureForm: 't={timestamp},v1={signature}',
        webhookSignedPayload: '{timestamp}.{body}',
        key: 'ACME_SECRET',
      },
    ],
    [
      'a key in base64, a body joined from a list',
      `const id = req.headers['acme-id'], time = req.headers['acme-timestamp'];
       const signed = [id, time, body].join('.');
       const mac = createHmac('sha256', Buffer.from(process.env.ACME_KEY, 'base64')).update(signed).digest('base64');
       return mac === req.headers['acme-signature'];`,
      {
        ...HEX,
        webhookSignatureEncoding: 'base64',
        webhookKeyEncoding: 'base64',
        webhookSignatureHeader: 'acme-signature',
        webhookTimestampHeader: 'acme-timestamp',
        webhookDeliveryIdHeader: 'acme-id',
        webhookNonceHeader: 'acme-id',
        webhookSignedPayload: '{id}.{timestamp}.{body}',
        key: 'ACME_KEY',
      },
    ],
    [
      'CryptoJS',
      `const sig = CryptoJS.HmacSHA1(body, ACME).toString(CryptoJS.enc.Base64);
       if (sig !== headers['X-Acme-Signature']) throw new Error('no');`,
      {
        ...HEX,
        webhookAllowSha1: true,
        webhookSignatureAlgorithm: 'sha1',
        webhookSignatureEncoding: 'base64',
        webhookSignatureHeader: 'X-Acme-Signature',
        key: undefined,
      },
    ],
  ])('becomes a trigger of scheme Custom: %s', (_, code, fields) => {
    expect(fieldsOf(code)).toEqual(fields);
  });

  it.each([
    [
      'Stripe',
      'const event = stripe.webhooks.constructEvent(req.body, sig, process.env.STRIPE_SECRET);',
      'STRIPE_SECRET',
    ],
    [
      'StandardWebhooks',
      `import { Webhook } from 'svix';\nnew Webhook(process.env.WH_SECRET).verify(body, headers);`,
      'WH_SECRET',
    ],
    [
      'StandardWebhooks',
      `from svix.webhooks import Webhook\nWebhook(os.getenv("WH_SECRET")).verify(body, headers)`,
      'WH_SECRET',
    ],
    [
      'Shopify',
      `const h = crypto.createHmac('sha256', process.env.SHOPIFY_SECRET).update(rawBody).digest('base64');
       return h === req.get('X-Shopify-Hmac-Sha256')`,
      'SHOPIFY_SECRET',
    ],
    [
      'Slack',
      `const ts = req.headers['x-slack-request-timestamp'];
       const mine = 'v0=' + crypto.createHmac('sha256', process.env.SLACK_SECRET).update(\`v0:\${ts}:\${body}\`).digest('hex');
       return mine === req.headers['x-slack-signature'];`,
      'SLACK_SECRET',
    ],
  ])('is the scheme of its publisher: %s', (scheme, code, key) => {
    expect(fieldsOf(code)).toEqual({ scheme, key });
  });

  it.each([
    ['nothing is computed', `return req.headers['x-acme-token'] === process.env.TOKEN`, 'no call that makes an HMAC'],
    [
      'two HMACs',
      `const a = createHmac('sha256', k).update(body).digest('hex'); const b = createHmac('sha1', k).update(body).digest('hex'); headers['x-sig']`,
      'which of 2 HMACs',
    ],
    [
      'the hash is a variable',
      `createHmac(algorithm, k).update(body).digest('hex') === headers['x-sig']`,
      'which hash',
    ],
    ['a hash that is not taken', `createHmac('md5', k).update(body).digest('hex') === headers['x-sig']`, 'which hash'],
    [
      'the header is a variable',
      `createHmac('sha256', k).update(body).digest('hex') === headers[name]`,
      'which header',
    ],
    [
      'two headers',
      `createHmac('sha256', k).update(body).digest('hex') === (headers['x-sig'] ?? headers['x-old-sig'])`,
      'x-old-sig',
    ],
    ['no encoding', `createHmac('sha256', k).update(body).digest().equals(headers['x-sig'])`, 'hex or base64'],
    [
      'something unknown is signed',
      `createHmac('sha256', k).update(canonical(req)).digest('hex') === headers['x-sig']`,
      'canonical',
    ],
    [
      'one of two texts is signed',
      `const body = raw ? text : again;\nconst s = raw ? a : b; createHmac('sha256', k).update(s).digest('hex') === headers['x-sig']`,
      'what is signed',
    ],
    [
      'the body is not signed',
      `createHmac('sha256', k).update('constant').digest('hex') === headers['x-sig']`,
      'whether the body',
    ],
    [
      'a time from nowhere',
      `createHmac('sha256', k).update(timestamp + body).digest('hex') === headers['x-sig']`,
      'where the time is',
    ],
    ['a cut header', `createHmac('sha256', k).update(body).digest('hex') === headers['x-sig'].slice(7)`, 'cut off'],
    [
      'a header matched by a pattern',
      `createHmac('sha256', k).update(body).digest('hex') === headers['x-sig'].replace(/^sha256=/, '')`,
      'cut off',
    ],
    [
      'unknown segments',
      `createHmac('sha256', k).update(body).digest('hex') === headers['x-sig'].split(',')[0]`,
      'between ","',
    ],
    [
      'a key made of something',
      `createHmac('sha256', derive(k)).update(body).digest('hex') === headers['x-sig']`,
      'done to the key',
    ],
    ['no code at all', 'hello', 'no call that makes an HMAC'],
    ['nothing', '', 'no call that makes an HMAC'],
  ])('is refused where it is not certain: %s', (_, code, why) => {
    expect(() => importCode(code)).toThrow(NotReadable);
    expect(() => importCode(code)).toThrow(why);
    expect(() => importCode(code)).not.toThrow('hunter2');
  });

  it('says nothing of a key that stands in the code', () => {
    const code = `const secret = 'hunter2-hunter2'; createHmac('sha256', secret).update(body).digest('hex') === headers['x-sig']`;
    const imported = importCode(code);
    expect(JSON.stringify(imported)).not.toContain('hunter2');
    expect(imported.triggers[0]?.notes.join()).toContain('the code has the key as text');
  });

  it('says that a body was written again', () => {
    const code = `createHmac('sha256', k).update(JSON.stringify(req.body)).digest('hex') === headers['x-sig']`;
    expect(importCode(code).triggers[0]?.notes.join()).toContain('wrote itself');
  });

  it('takes the age that the code refuses', () => {
    const code = (age: string) => `const ts = headers['x-ts']; if (now - ts > ${age}) throw 1;
      createHmac('sha256', k).update(ts + '.' + body).digest('hex') === headers['x-sig']`;
    const ageOf = (age: string) => {
      const verifiedBy = importCode(code(age)).triggers[0]?.verifiedBy;
      return verifiedBy !== undefined && 'inputs' in verifiedBy && verifiedBy.inputs.webhookReplayToleranceSeconds;
    };
    expect([ageOf('60'), ageOf('5 * 60'), ageOf('600_000'), ageOf('MAX_AGE')]).toEqual([60, 300, 600, 300]);
  });

  it.each([
    ['brackets', '('.repeat(50_000)],
    ['templates', '`${'.repeat(20_000)],
    ['quotes', '"\'`'.repeat(20_000)],
    ['sums', `x = ${'a + '.repeat(20_000)}a`],
    ['lines', '\n'.repeat(200_000)],
    ['comments', '// a\n'.repeat(50_000)],
    ['words in front', 'new '.repeat(50_000)],
    ['a program', 'a'.repeat(300_000)],
    ['ages', 'toleran'.repeat(30_000)],
    ['numbers', `>${'1'.repeat(200_000)}`],
    ['names that mean each other', 'a = b\nb = a\ncreateHmac("sha256", a).update(a).digest("hex")'],
    ['members', `a${'.b'.repeat(20_000)}`],
    ['calls', 'f('.repeat(5_000) + ')'.repeat(5_000)],
  ])('ends with a refusal for %s without end', (_, code) => {
    expect(() => importCode(code)).toThrow(NotReadable);
  });
});
