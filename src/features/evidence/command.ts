import { createPublicKey, type KeyObject } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { Command } from 'commander';
import { CommandError, reporting, withService, writeOutput } from '../../commands/context.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import { clientOf, isId, type ServiceOptions } from '../../commands/service-client.ts';
import { print, printError } from '../../telemetry/terminal.ts';
import { keyName, verifyEvidence } from './bundle.ts';

interface FetchOptions extends ServiceOptions {
  readonly output?: string;
}

interface VerifyOptions {
  readonly key: string;
  readonly extract?: string;
}

function evidence(): Command {
  const command = new Command('evidence')
    .helpGroup(HELP.history)
    .description('Fetch a delivery and its run as one signed file, or verify such a file')
    .argument('<deliveryId>', 'id of the delivery')
    .option('-o, --output <file>', 'where to write it; default: evidence-ID.json')
    .addCommand(verifyCommand());
  return withService(command).action(reporting(fetchEvidence));
}

async function fetchEvidence(deliveryId: string, { output, ...options }: FetchOptions): Promise<void> {
  if (!isId(deliveryId)) throw new CommandError(`"${deliveryId}" is not the id of a delivery`);
  const client = await clientOf(options);
  const text = await (await client.open(`/flows/api/webhooks/${deliveryId}/evidence`)).text();
  const file = output ?? `evidence-${deliveryId}.json`;
  const bundle = bundleIn(text);
  if (typeof bundle.statement !== 'string')
    throw new CommandError('The answer is not evidence; is it a Sluice service?');
  await writeOutput(file, text);
  print(`${file}\n`);
  if (bundle.signature === null) printError('It is not signed: the service has no SLUICE_EVIDENCE_KEY.\n');
}

function bundleIn(text: string): { readonly statement?: unknown; readonly signature?: unknown } {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}

function verifyCommand(): Command {
  return new Command('verify')
    .description('Check that an evidence file was signed by a key and not altered since; needs no service')
    .argument('<file>', 'the file')
    .requiredOption('--key <file>', 'the public key of the service as PEM, from its operator')
    .option('--extract <folder>', 'also write the parts to files in this folder')
    .addHelpText('after', '\nExits with 0 if the file is proven, with 1 if not, with 2 if it could not be read.')
    .action(reporting(verify));
}

async function verify(file: string, { key, extract }: VerifyOptions): Promise<void> {
  const publicKey = publicKeyIn(await read(key), key);
  const verdict = verifyEvidence(await read(file), publicKey);
  if (!verdict.isProven) {
    print(`not proven: ${verdict.why}\n`);
    process.exitCode = 1;
    return;
  }
  const { deliveryId, runId, createdAt, version, parts } = verdict.statement;
  const lines = [
    // We print the given key: it proves the statement, whereas the bundle's own name for the key is only a claim.
    `proven: signed by ${keyName(publicKey)} on ${createdAt}, Sluice ${version}`,
    `delivery ${deliveryId}, ${runId === null ? 'no run' : `run ${runId}`}`,
    ...parts.map((part) => `  ${part.sha256}  ${String(part.bytes).padStart(9)} bytes  ${part.name}`),
  ];
  print(`${lines.join('\n')}\n`);
  if (extract === undefined) return;
  await mkdir(extract, { recursive: true }).catch((error: Error) => {
    throw new CommandError(`${extract} is not a folder for the parts: ${error.message}`);
  });
  for (const part of verdict.parts) await extractPart(join(extract, basename(part.name)), part.content);
}

/** The bundle chooses the names of its parts: none can replace a file or follow a link. */
async function extractPart(path: string, content: Uint8Array): Promise<void> {
  try {
    await writeFile(path, content, { flag: 'wx' });
  } catch (error) {
    const why = (error as NodeJS.ErrnoException).code === 'EEXIST' ? 'it exists; give an empty folder' : String(error);
    throw new CommandError(`${path} is not written: ${why}`);
  }
}

async function read(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    throw new CommandError(`${file} cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Refuses a private key: verifying must not need it. */
function publicKeyIn(pem: string, file: string): KeyObject {
  if (pem.includes('PRIVATE KEY')) throw new CommandError(`${file} is a private key; give the public one`);
  try {
    const key = createPublicKey(pem);
    if (key.asymmetricKeyType === 'ed25519') return key;
  } catch {
    // Reported below.
  }
  throw new CommandError(`${file} is not an Ed25519 public key as PEM`);
}

export const evidenceCommand: CommandPart = { name: 'evidence', commands: [evidence] };
