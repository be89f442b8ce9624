// Licences and lists of what is inside, made by the tools that exist for it: cargo-about, cargo-cyclonedx, npm sbom.
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { npmCommand } from '../install.mjs';
import { inRepository, root } from '../repository.mjs';
import { must, succeeds } from './command.mjs';
import { targets } from './targets.mjs';

const folder = inRepository('target', 'package', 'papers');
const tools = { about: 'cargo-about --features cli', cyclonedx: 'cargo-cyclonedx' };

async function need(tool) {
  if (await succeeds('cargo', [tool, '--version'])) return;
  throw new Error(`cargo-${tool} was not found: cargo install --locked ${tools[tool]}`);
}

/** The texts of the licences of all crates in an addon, and of Rust's standard library. */
export async function writeNotices(name, part) {
  await need('about');
  mkdirSync(folder, { recursive: true });
  const file = path.join(folder, `${part.file}-${name}.notices`);
  const settings = ['--config', inRepository('scripts', 'package', 'about.toml'), '--manifest-path', part.manifest, '--target', targets[name].triple, '--locked', '--fail'];
  const text = await must('cargo', ['about', 'generate', ...settings, inRepository('scripts', 'package', 'about.hbs')]);
  writeFileSync(file, `${unescape(text)}\n${await noticesOfRust()}`);
  return file;
}

/** Handlebars writes for HTML. */
function unescape(text) {
  const characters = { '&quot;': '"', '&#x27;': "'", '&#x3D;': '=', '&#x60;': '`', '&lt;': '<', '&gt;': '>', '&amp;': '&' };
  return text.replace(/&(quot|#x27|#x3D|#x60|lt|gt|amp);/g, (entity) => characters[entity]);
}

/** What Rust states of its standard library, without the markup. */
async function noticesOfRust() {
  const sysroot = (await must('rustc', ['--print', 'sysroot'])).trim();
  const file = path.join(sysroot, 'share', 'doc', 'rust', 'COPYRIGHT-library.html');
  if (!existsSync(file)) throw new Error(`${file} was not found: it comes with rustup's Rust`);
  const words = readFileSync(file, 'utf8').replace(/<(style|script|head)\b.*?<\/\1>/gs, '').replace(/<[^>]*>/g, '');
  return `${'-'.repeat(80)}\nRust's standard library\n\n${unescape(words).replace(/[ \t]+$/gm, '').replace(/\n{3,}/g, '\n\n')}`;
}

/** CycloneDX, of the crates that an addon is compiled from. */
export async function writeSbom(name, part) {
  await need('cyclonedx');
  mkdirSync(folder, { recursive: true });
  const stem = `${part.file}-${name}.cdx`;
  await must('cargo', ['cyclonedx', '--manifest-path', part.manifest, '--format', 'json', '--spec-version', '1.5', '--target', targets[name].triple, '--override-filename', stem, '--quiet']);
  const [file, written] = [folder, path.dirname(part.manifest)].map((place) => path.join(place, `${stem}.json`));
  // It writes one beside the manifest of every crate of the workspace.
  for (const crate of readdirSync(inRepository('crates'))) rmSync(inRepository('crates', crate, `${stem}.json`), { force: true });
  // It names crates of the workspace by where they lie on this machine.
  writeFileSync(file, readFileSync(written, 'utf8').replaceAll(`file://${root.replaceAll(path.sep, '/')}`, 'file:///webnn-node'));
  rmSync(written);
  return file;
}

/** Of the package that is JavaScript alone. */
export async function writePackageSbom() {
  const [command, ...first] = npmCommand();
  return must(command, [...first, 'sbom', '--sbom-format', 'cyclonedx', '--omit', 'dev', '--omit', 'peer', '--package-lock-only']);
}
