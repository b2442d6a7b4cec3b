#!/usr/bin/env node
import { Command } from 'commander';
import { checkCommand } from './commands/check.ts';
import { schemaCommand } from './commands/schema.ts';
import { schemesCommand } from './commands/schemes.ts';
import { sendCommand } from './commands/send.ts';
import { serveCommand } from './commands/serve.ts';

const program = new Command('sluice')
  .description('Receives webhooks safely and runs durable flows from them.')
  .showHelpAfterError()
  .addCommand(serveCommand())
  .addCommand(checkCommand())
  .addCommand(sendCommand())
  .addCommand(schemesCommand())
  .addCommand(schemaCommand());

await program.parseAsync();
