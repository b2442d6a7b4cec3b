import type { RequestListener } from 'node:http';
import { createServer } from 'node:https';
import { rootCertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { EgressRefusedError } from '../../../src/flows/handlers/egress.ts';
import { createGuardedGet } from '../../../src/flows/handlers/guarded-get.ts';

/** For localhost and 127.0.0.1, made for this test. */
const CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIDJzCCAg+gAwIBAgIUXJx/gLHHp4iUolfib48FV+X8SSIwDQYJKoZIhvcNAQEL
BQAwFDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMjE1NTAwOVoYDzIxMjYx
MDI5MTU1MDA5WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwggEiMA0GCSqGSIb3DQEB
AQUAA4IBDwAwggEKAoIBAQDiyK88+SVQTOFApqHnsEdStdGablWDq1Yvthza2VPr
C0wV8TlIzEzDu/bJzgBAuvTtYwSr8kInMk8lqFF22OOFIY3FPeGZhBqXAjKoDBoc
7oCApeHM3i/Z3OCHL6CUEbZwvpKqAGrDn/GusatmoxZlWZ4tHvftdpz0OHCPTwmz
d+uXj1Sppc7Yz3DdS/EvJj3xpZ4pY9P7XgWGzokh1RVyxA2iNvnaobOk5Tc1sOkj
tKaa+y/iRDx8az39RGVcEM7TAKqg70DKTt6vV4Mu4wxBG7P2uVk8cepZa/VwAju7
IHbitjNqtLGbj+FR7HSANU2AXR+X8Eihz2LGmhpFDa3nAgMBAAGjbzBtMB0GA1Ud
DgQWBBTZEjf8hysUHI7L7OYw1m8Y6zxVYjAfBgNVHSMEGDAWgBTZEjf8hysUHI7L
7OYw1m8Y6zxVYjAPBgNVHRMBAf8EBTADAQH/MBoGA1UdEQQTMBGCCWxvY2FsaG9z
dIcEfwAAATANBgkqhkiG9w0BAQsFAAOCAQEAKOtngVci58OEQUZSIoKxf+rObJRK
tq3Ob9hnfAOFHR7G4iIoRxWhbjRSsBJZuRaop7yTWz7a9MtVAUgvGfbsYjtDwSZ4
Y1kPcBuW6NudenNJuwtcvfsIoEWSyHKe2xTjCGk0C0cbhSiY6Tpw6qTuWss9Wn/G
MOnMP0GSAM2Qknmj/6TWjmdRQQ3lnb88sDjTuAv0K0fKo31cdIpo6iYVd4xdpxBZ
3YOtfglIhyMSmiTTxVcnyFYXX8BsuxbXvrYoZ8SCHsdPK91YWQ/0XMVAvyMU0+vP
0IPG5XSVXVZBa5WbaB3wXIcazFrc6Pk+rkAm7UrbzFTH2h1yBO4KnTYiGA==
-----END CERTIFICATE-----
`;
const KEY = `-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDiyK88+SVQTOFA
pqHnsEdStdGablWDq1Yvthza2VPrC0wV8TlIzEzDu/bJzgBAuvTtYwSr8kInMk8l
qFF22OOFIY3FPeGZhBqXAjKoDBoc7oCApeHM3i/Z3OCHL6CUEbZwvpKqAGrDn/Gu
satmoxZlWZ4tHvftdpz0OHCPTwmzd+uXj1Sppc7Yz3DdS/EvJj3xpZ4pY9P7XgWG
zokh1RVyxA2iNvnaobOk5Tc1sOkjtKaa+y/iRDx8az39RGVcEM7TAKqg70DKTt6v
V4Mu4wxBG7P2uVk8cepZa/VwAju7IHbitjNqtLGbj+FR7HSANU2AXR+X8Eihz2LG
mhpFDa3nAgMBAAECggEAFgbzCmOSrb2B5XMp56SWEOELFkpgMPVL3j98hv8z6PEE
d18iNsFtNVfE7S3+lUrzbjk/Y2oY5dC7okc6fmYrlys+p2lOx8fugztZ6zudr7C0
t4olJ+5uzGTpRAgquycLRuEjwrJerFiVM2gbY1E05CwzsmM/JofuT8RJnonJQe6V
m1ZAvcD+9WaBDp2O8Rtp91lnFGutZNzWAhEmpa5Ohsr/q80TSY59XqgceqUaQaXm
2LPsXDWTuoZwAojfyVLdn0yozWj4ItIGA9dJ7HIz0kHq6gPUFwo7pi2t9xRGkrzL
HxS/2HNRFnkX7WvafBDZdtxQwpLX/bwqc4Pc9rGBVQKBgQDx6jaXE3NqdF+M/83Z
3nSSIyi2USGiiUwG2Ac7iQKBEvjmNsEalJ3LfGvaHzvuTIK/Rcu2scx4CdGz7Kb6
xHfNQ2m++rU4iHmGnztuASQduWOHxJ08pTO+KnmbtrAQkiooV9kZJE/zH0xpKU8f
u7dJQgf8n1PGddy4/WUBjrn/kwKBgQDv/PD6ZOv2yR8OWXTHUT4lOwnO22zkBtKt
wBXgzBSq5D8e3JSS+hhMvAKZFLRI+MUEUynrwvrqtbcEThIh+QlvL2t7djeOnB0Y
7ZJE7TunRIHu8sIz6/yckqGCStDOHjB8b1IEDBKZiN0+BlGGuFVWCTcMsgv8oO6n
d1qE5KNE3QKBgQDstN3hiXi/S0tLbemAKvkpHRny+wPMREeN0seQ64j1vxioOh9M
4Opdd0sYzMMZcufkPGkORH7rXcBBK2hfquoGgNXxtuKnhHJU1W2TP66VHxdSe4HX
G1a71lfTkzhHnp19iCe3QB6yp4dexrrTNBwtpFyoRUX1xNHKeLbihUNd3QKBgE4r
gsbcxqt8+VuwMcSWpvpzj49Mk9x2iHtF/Rpa/0Rm0lSYHuD9C5s7BlGcl9jJB0uQ
VzBPM3HuPK3vTCK6vqLzvDvb1t7h5OxwvdsrtumV/Ai8FBvbe034yRjqi7cHyF1P
2VQuJoTSOtZwMnACbPF4UPEWsabZOMNdsiNlYfUVAoGARZebjrihC4RPzdHTCyjo
VDuCr4yADPWJy4KmkcrmThLlG9chU8eoVe9obfr24irnYtzXkl1+D4nC0dVatO1c
S6bxZPoDlHm/YiyRsYWSJ0fvIsGu4Zce4IdCFZXMx0Zz5xUHt0OEEZI4jRSyUyv/
D90P7rdAC0yZfjJlJs5THpc=
-----END PRIVATE KEY-----
`;

let answer: RequestListener = (_request, response) => response.end();
const asked: string[] = [];
const server = createServer({ cert: CERTIFICATE, key: KEY }, (request, response) => {
  asked.push(`${request.method} ${request.url}`);
  answer(request, response);
});
let url: string;
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server listens on no port');
  url = `https://127.0.0.1:${address.port}/a?b=1`;
});
afterAll(() => {
  setDefaultCACertificates([...rootCertificates]);
  server.closeAllConnections();
  server.close();
});

const get = createGuardedGet({ egressAllow: ['127.0.0.1'] });
const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'an answer',
    (error) => error.code ?? error.name,
  );

it('calls no address that steps may not call', async () => {
  const guarded = createGuardedGet({ egressAllow: [] });
  await expect(guarded(url)).rejects.toThrow(EgressRefusedError);
  await expect(guarded(url.replace('127.0.0.1', 'localhost'))).rejects.toThrow();
  expect(asked).toEqual([]);
});

it('believes no server without a certificate that is vouched for', async () => {
  expect(await codeOf(get(url))).toMatch(/CERT|SELF_SIGNED/);
  expect(asked).toEqual([]);
});

it('speaks https alone', async () => {
  expect(await codeOf(get(url.replace('https', 'http')))).toBe('NOT_HTTPS');
});

it('yields the text of a 200, and nothing else', async () => {
  setDefaultCACertificates([...rootCertificates, CERTIFICATE]);
  const trusting = createGuardedGet({ egressAllow: ['127.0.0.1'] });
  answer = (_request, response) => response.end('a certificate');
  expect(await trusting(url)).toBe('a certificate');
  expect(asked).toEqual(['GET /a?b=1']);
  answer = (_request, response) => response.writeHead(302, { location: url }).end();
  expect(await codeOf(trusting(url))).toBe('STATUS_302');
  answer = (_request, response) => response.writeHead(404).end('not there');
  expect(await codeOf(trusting(url))).toBe('STATUS_404');
  expect(asked).toHaveLength(3);
  answer = (_request, response) => response.end('x'.repeat(65_536));
  expect(await trusting(url)).toHaveLength(65_536);
  answer = (_request, response) => response.end('x'.repeat(65_537));
  expect(await codeOf(trusting(url))).toBe('UND_ERR_RES_EXCEEDED_MAX_SIZE');
});
