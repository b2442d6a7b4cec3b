// What stands in the bundle for a package, or for a file of one, of which little is used: the rest weighs, and nothing calls
// it. What is left out has no value, so that code which should need it after all fails at once.
import { createRequire } from 'node:module';
import { brotliCompressSync } from 'node:zlib';

const nothing = 'export default undefined;';
const none = 'module.exports = {};';
const require = createRequire(import.meta.url);

/** The bytes that a module exports, which no archive can pack well as they stand there in base64. */
const packed = (name) => `
  const bytes = Buffer.from('${brotliCompressSync(require(name)).toString('base64')}', 'base64');
  module.exports = require('node:zlib').brotliDecompressSync(bytes);
`;

/** Each for its own reason, given above it: the code that takes the place, by package or by file in it without `.js`. */
export const PARTS_OF_PACKAGES = {
  // Of the client the agent alone, with its `request`; all of it would be 160 kB more in the package.
  undici: `
    import Agent from 'undici/lib/dispatcher/agent.js';
    import Dispatcher from 'undici/lib/dispatcher/dispatcher.js';
    import api from 'undici/lib/api/index.js';
    Object.assign(Dispatcher.prototype, api);
    export { Agent };
  `,
  // What parses HTTP.
  'undici/lib/llhttp/llhttp-wasm': packed('undici/lib/llhttp/llhttp-wasm.js'),
  // undici parses with the other build, which every processor runs, if this one does not compile.
  'undici/lib/llhttp/llhttp_simd-wasm': 'module.exports = Buffer.alloc(0);',
  // HTTP/2, which the agent is not told to speak.
  'undici/lib/dispatcher/client-h2': 'module.exports = undefined;',
  // Makes a body of a form or of an iterable; ours are buffers and streams.
  'undici/lib/web/fetch/body': none,

  // graphile-worker looks with it for a configuration of its own in the working directory; ours is given in code.
  cosmiconfig: 'export const cosmiconfigSync = () => ({ search: () => null });',
  // Reads a payload in a file of cron jobs; ours are given in code.
  json5: nothing,
  // The other client of pg, over a library of the system.
  'pg/lib/native/index': none,

  // We send spans alone; the SDK asks for what sends metrics and logs when it is loaded, and for the reader of its own file.
  '@opentelemetry/sdk-node/build/src/start': none,
  '@opentelemetry/sdk-metrics': none,
  '@opentelemetry/exporter-prometheus': none,
  '@opentelemetry/sdk-logs': 'exports.LoggerProvider = class { shutdown() {} };',
  '@opentelemetry/exporter-logs-otlp-grpc': none,
  '@opentelemetry/exporter-logs-otlp-http': none,
  '@opentelemetry/exporter-logs-otlp-proto': none,
  '@opentelemetry/exporter-metrics-otlp-grpc': none,
  '@opentelemetry/exporter-metrics-otlp-http': none,
  '@opentelemetry/exporter-metrics-otlp-proto': none,
  '@opentelemetry/otlp-transformer/build/esm/logs/json/index': none,
  '@opentelemetry/otlp-transformer/build/esm/logs/protobuf/index': none,
  '@opentelemetry/otlp-transformer/build/esm/metrics/json/index': none,
  '@opentelemetry/otlp-transformer/build/esm/metrics/protobuf/index': none,
  // Wraps other packages; the SDK hands it an empty list.
  '@opentelemetry/instrumentation': 'export const registerInstrumentations = () => () => {};',
  // Of its names the stable attributes are read.
  '@opentelemetry/semantic-conventions/dist/index.cjs': "module.exports = require('./stable_attributes.cjs');",
  // Read the definition of a diagnostic service that grpc could offer, which nothing here does.
  '@grpc/proto-loader': none,
  // A server of grpc, and ways to choose among several that nobody asks for.
  '@grpc/grpc-js/build/src/admin': 'exports.registerAdminService = () => {};',
  '@grpc/grpc-js/build/src/server': none,
  '@grpc/grpc-js/build/src/server-credentials': none,
  '@grpc/grpc-js/build/src/server-interceptors': none,
  '@grpc/grpc-js/build/src/load-balancer-outlier-detection': 'exports.setup = () => {};',
  '@grpc/grpc-js/build/src/load-balancer-weighted-round-robin': 'exports.setup = () => {};',

  // The kind of an attachment by its name; no mail of ours has one.
  'nodemailer/dist/esm/mime-funcs/mime-types': 'export const detectMimeType = undefined, detectExtension = undefined;',
  // Signs, fetches and sends by other ways than SMTP over the connection that it is given.
  'nodemailer/dist/esm/dkim/index': nothing,
  'nodemailer/dist/esm/fetch/index': nothing,
  'nodemailer/dist/esm/json-transport/index': nothing,
  'nodemailer/dist/esm/sendmail-transport/index': nothing,
  'nodemailer/dist/esm/ses-transport/index': nothing,
  'nodemailer/dist/esm/smtp-connection/http-proxy-client': nothing,
  'nodemailer/dist/esm/smtp-pool/index': nothing,
  'nodemailer/dist/esm/stream-transport/index': nothing,
  'nodemailer/dist/esm/well-known/index': nothing,
  'nodemailer/dist/esm/xoauth2/index': nothing,

  // Its own copy of ajv, which the bundle has.
  '@modelcontextprotocol/server/dist/shimsNode.mjs': `
    export { default as process } from 'node:process';
    export const DefaultJsonSchemaValidator = undefined;
  `,

  // fastify asks whether it is new enough for its plugins; the lock file says so.
  semver: 'module.exports = { gt: () => false, coerce: () => null, satisfies: () => true };',
  // What fastify checks and writes by a schema where an app brings nothing of its own: ours are of zod.
  '@fastify/ajv-compiler': 'module.exports = () => undefined;',
  '@fastify/fast-json-stringify-compiler': 'module.exports = () => undefined;',
  // Describe an API in a document of its own, and in the format before OpenAPI.
  '@fastify/swagger/lib/mode/static': none,
  '@fastify/swagger/lib/spec/swagger/index': none,
  // A log that a thread or a file of its own writes.
  'pino/lib/transport': 'module.exports = undefined;',
  // A metric of quantiles, which we have none of.
  'prom-client/lib/summary': none,
  // Sends what is scraped, and sums it up over processes of one machine.
  'prom-client/lib/pushgateway': none,
  'prom-client/lib/cluster': none,
  // The log of a browser.
  'debug/src/browser': none,
  // The same release as that of ajv.
  'json-schema-resolver/node_modules/fast-uri/index':
    "module.exports = require('../../../ajv/node_modules/fast-uri/index.js');",
  // @fastify/swagger writes YAML with it, where we answer JSON alone.
  yaml: nothing,
  // Calls a server of fastify without a socket, which only tests do.
  'light-my-request': nothing,

  // The messages of zod in 60 languages, of which the service and its `z` speak one.
  'zod/v4/locales/index': "export { default as en } from './en.js';",
};
